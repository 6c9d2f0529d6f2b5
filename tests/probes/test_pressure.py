"""pressure: seconds waited, with and without irq, and a kernel that has none of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import damage_in, machine, psi, told, unseen

from zombiescope.core import Unparsable, Unreadable
from zombiescope.probes import pressure
from zombiescope.probes.pressure import parse

WITHOUT_IRQ = {
    "proc/pressure/cpu": psi(14036781, None),  # before 5.13 cpu had no row `full`
    "proc/pressure/io": psi(159886802, 159229614),
    "proc/pressure/memory": psi(0, 0),
}


def test_parse() -> None:
    assert parse(psi(159886802, 159229614)) == {"some": 159.886802, "full": 159.229614}
    assert parse(psi(None, 8494)) == {"full": 0.008494}


@pytest.mark.parametrize("damage", ["some avg10=0.00", "some total=-5", "some total=", "some total=1.5", "", "\n"])
def test_damage(damage: str) -> None:
    assert damage_in(parse, psi(1, None) + damage + "\n", "/proc/pressure/io") == ("/proc/pressure/io", 2)


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_number_that_no_float_can_hold(digits: int) -> None:
    with pytest.raises(Unparsable):
        parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=" + "9" * digits, "/proc/pressure/io")


def test_read_with_irq(tmp_path: Path) -> None:
    host = machine(tmp_path, WITHOUT_IRQ | {"proc/pressure/irq": psi(None, 8494)})
    waiting = {"cpu": 14.036781, "io": 159.886802, "memory": 0}
    stalled = {"io": 159.229614, "memory": 0, "irq": 0.008494}
    assert told(pressure, host) == {
        **{(f"pressure_{what}_waiting_seconds_total", "node"): seconds for what, seconds in waiting.items()},
        **{(f"pressure_{what}_stalled_seconds_total", "node"): seconds for what, seconds in stalled.items()},
    }


def test_read_without_irq(tmp_path: Path) -> None:
    host = machine(tmp_path, WITHOUT_IRQ)
    assert len(told(pressure, host)) == 5
    assert unseen(pressure, host) == {"pressure_irq_stalled_seconds_total": "no such file or directory"}


def test_a_row_is_missing(tmp_path: Path) -> None:
    host = machine(tmp_path, WITHOUT_IRQ | {"proc/pressure/io": psi(3, None)})
    with pytest.raises(Unparsable, match=r"/proc/pressure/io: .*no row full"):
        list(pressure.read(host))


def test_a_kernel_without_psi(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="/proc/pressure: no such file"):
        list(pressure.read(machine(tmp_path, {})))
