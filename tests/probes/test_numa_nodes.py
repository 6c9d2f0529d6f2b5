"""numa_nodes: which cores are near to each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import machine, told

from zombiescope.core import Unparsable, Unreadable
from zombiescope.kernel.text import cores as parse
from zombiescope.probes import numa_nodes

FOLDER = "sys/devices/system/node"


@pytest.mark.parametrize(
    ("text", "cores"), [("0-1\n", [0, 1]), ("0,2-3\n", [0, 2, 3]), ("\n", []), ("5\n", [5])], ids=repr
)
def test_parse(text: str, cores: list[int]) -> None:
    assert parse(text, "cpulist") == cores


@pytest.mark.parametrize("text", ["x\n", "3-1\n", "1-\n", "-1\n", "0-99999999\n", "0;1\n", "1,,2\n"])
def test_damage(text: str) -> None:
    with pytest.raises(Unparsable):
        parse(text, "cpulist")


def test_two_nodes_and_one_of_memory_alone(tmp_path: Path) -> None:
    files = {"node0/cpulist": "0,2\n", "node1/cpulist": "1,3\n", "node2/cpulist": "\n", "possible": "0-2\n"}
    host = machine(tmp_path, {f"{FOLDER}/{name}": text for name, text in files.items()})
    assert told(numa_nodes, host) == {("cpu_numa_node", f"cpu:{cpu}"): cpu % 2 for cpu in range(4)}


def test_a_kernel_without(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no NUMA node"):
        list(numa_nodes.read(machine(tmp_path, {f"{FOLDER}/possible": "0\n"})))
