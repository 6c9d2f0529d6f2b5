"""nf_conntrack: two numbers and a column, in tables as kernels have written them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import damage_in, machine, told, unseen

from zombiescope.core import Unparsable, Unreadable
from zombiescope.probes import nf_conntrack
from zombiescope.probes.nf_conntrack import DROPS, parse_drops

HEAD = "entries  searched found new invalid ignore delete delete_list insert insert_failed drop early_drop icmp_error  "
OLD = HEAD + "expect_new expect_create expect_delete search_restart\n"
NEW = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error\n"


def row(drop: int) -> str:
    return "00000021  " + "00000000 " * 9 + f"{drop:08x} 0000000a 00000000\n"


FILES = {
    "at": "1794000000\n",
    "proc/sys/net/netfilter/nf_conntrack_count": "260011\n",
    "proc/sys/net/netfilter/nf_conntrack_max": "262144\n",
    "proc/net/stat/nf_conntrack": NEW + row(0x1F) + row(1),
}


def test_read(tmp_path: Path) -> None:
    assert told(nf_conntrack, machine(tmp_path, FILES)) == {
        ("conntrack_entries", "node"): 260011,
        ("conntrack_limit", "node"): 262144,
        ("conntrack_drops_total", "node"): 32,
    }


def test_a_kernel_without_the_table_of_drops(tmp_path: Path) -> None:
    host = machine(tmp_path, {name: text for name, text in FILES.items() if "stat" not in name})
    assert len(told(nf_conntrack, host)) == 2
    assert set(unseen(nf_conntrack, host)) == {"conntrack_drops_total"}


def test_a_node_that_tracks_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="nf_conntrack_count: no such file"):
        list(nf_conntrack.read(machine(tmp_path, {})))


@pytest.mark.parametrize("head", [OLD, NEW])
def test_drops_of_every_age(head: str) -> None:
    assert parse_drops(head + row(7) * 3) == 21
    assert parse_drops(head) == 0


@pytest.mark.parametrize(
    ("text", "line"),
    [("", 1), ("entries found\n", 1), (NEW + "00000021\n", 2), (NEW + row(1) + row(1).replace("1 ", "x "), 3)],
)
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse_drops, text) == (DROPS, line)


@pytest.mark.parametrize("number", ["", "x\n", "-1\n", "9" * 400])
def test_a_number_that_is_none(tmp_path: Path, number: str) -> None:
    with pytest.raises(Unparsable):
        list(nf_conntrack.read(machine(tmp_path, FILES | {"proc/sys/net/netfilter/nf_conntrack_max": number})))
