"""softnet_stat: lines of nine to fifteen columns, and the core that each belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import damage_in, machine, softnet, told, unseen

from zombiescope.probes import softnet_stat
from zombiescope.probes.softnet_stat import GIVES, parse

SHORT = "00000000 " * 8


@pytest.mark.parametrize(
    ("columns", "given", "cores"),
    [(9, 4, [0, 1]), (10, 5, [0, 1]), (11, 6, [0, 1]), (13, 7, [0, 2]), (15, 7, [0, 2])],
)
def test_columns_of_every_age(tmp_path: Path, columns: int, given: int, cores: list[int]) -> None:
    """Core 1 is off line: only a kernel that writes the core's own number can say so."""
    host = machine(tmp_path, {"proc/net/softnet_stat": softnet(0, 2, columns=columns)})
    values = dict(zip(GIVES, (0x49279, 0x29, 0xA, 2, 3, 5, 7), strict=True))
    values = {what: values[what] for what in GIVES[:given]}
    expected = {(what, f"cpu:{cpu}"): value for what, value in values.items() for cpu in cores}
    expected["softnet_processed_total", f"cpu:{cores[1]}"] += 2
    assert told(softnet_stat, host) == expected
    assert set(unseen(softnet_stat, host)) == set(GIVES[given:])


def test_the_reason_names_the_column(tmp_path: Path) -> None:
    host = machine(tmp_path, {"proc/net/softnet_stat": softnet(0, columns=9)})
    assert unseen(softnet_stat, host)["softnet_received_rps_total"] == "this kernel's lines have no column 10"


@pytest.mark.parametrize(
    ("text", "line"), [("", 1), ("\n", 1), (softnet(0) + SHORT + "\n", 2), (softnet(0, 1) + "xyz " + SHORT, 3)]
)
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse, text) == ("/proc/net/softnet_stat", line)
