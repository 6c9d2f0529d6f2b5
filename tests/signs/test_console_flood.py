"""console_flood: a log that a serial console cannot print in time; a boot, a fast console and quiet lines are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.files import node_of
from tests.nodes import Sampled, node, read

from zombiescope.core import Case, Finding, Reading, Unparsable
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import console_flood_to_saturated_core, console_flood_to_soft_lockup
from zombiescope.probes import consoles
from zombiescope.signs import console_flood, soft_lockup

LINE = "usb 1-1: device descriptor read/64, error {} ........................................................."
WRITES = "do_syscall_64;vprintk_emit;console_unlock;serial8250_console_write;wait_for_lsr"


def log(lines_a_second: int, *, seconds: int = 10, level: int = 4, start: float = 0.0) -> list[Reading]:
    many = lines_a_second * seconds
    return [read("kernel_log", "node", level, start + it / lines_a_second, LINE.format(it)) for it in range(many)]


def console(bits: int = 115_200, level: int = 7, up: float = 9e4) -> list[Reading]:
    return [
        read("console_bytes_per_second", "console:ttyS0", bits / 10, 0.0, "ttyS0"),
        read("console_level", "node", level, 0.0),
        read("uptime_seconds", "node", up, 0.0),
    ]


def stacks(stack: str = WRITES) -> list[Sampled]:
    return [(it / 10, 0, "kworker/0:1[9]", stack) for it in range(100)]


def case(readings: list[Reading], samples: list[Sampled] | None = None) -> Case:
    return examine(node(readings, samples=samples or (), hz=10), signs={"console_flood": console_flood}, laws={})


def test_a_flood_on_a_slow_line_and_what_it_says() -> None:
    (found,) = case([*console(), *log(150)], stacks()).findings
    assert found.subject == "console:ttyS0" and "of what it is set to; 100 % of the lines" in found.says
    assert "usb …-…: device descriptor read/…, error …" in found.says
    assert "console_print_sampled_seconds" in {it.what for it in found.evidence} and found.harm.burnt_cores
    assert case([*console(), *log(150)]).unsure  # without stacks nobody knows what it costs


@pytest.mark.parametrize(
    ("readings", "samples"),
    [
        ([*console(), *log(20)], None),
        ([*console(level=4), *log(150)], None),
        ([*console(up=10.0), *log(150)], None),
        ([*console(bits=4_000_000), *log(150)], None),
        ([*console(), *log(300, seconds=2)], None),
        ([*console(), *log(150)], stacks("main;work")),
        ([*console()[1:], *log(150)], None),
    ],
    ids=["few lines", "below the console's level", "a boot", "a fast line", "one oops", "a fast port", "no serial"],
)
def test_silent(readings: list[Reading], samples: list[Sampled] | None) -> None:
    result = case(readings, samples)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_what_follows() -> None:
    line = read("kernel_log", "node", 0, 9.0, "watchdog: BUG: soft lockup - CPU#0 stuck for 23s! [kworker/0:1:9]")
    signs, law = {"console_flood": console_flood, "soft_lockup": soft_lockup}, console_flood_to_soft_lockup
    full = examine(node([*console(), *log(150), line]), signs=signs, laws={"console_flood_to_soft_lockup": law})
    assert len(full.links) == 1 and full.links[0].grounds[0].kind == "dose"
    half = examine(node([*console(), *log(70), line]), signs=signs, laws={"console_flood_to_soft_lockup": law})
    assert len(half.findings) == 2 and not half.links
    flood, core = full.findings[0], soft_lockup_of(full)
    there = node([], samples=stacks())
    assert list(console_flood_to_saturated_core.grounds(flood, core, there))
    assert not list(console_flood_to_saturated_core.grounds(flood, core, node([], samples=stacks("main;work"))))


def soft_lockup_of(result: Case) -> Finding:
    return next(it for it in result.findings if it.sign == "soft_lockup")


FILES = {
    "proc/consoles": "ttyS0                -W- (EC  p a)    4:64\ntty0                 -WU (E   p  )    4:1\n",
    "proc/sys/kernel/printk": "4\t4\t1\t7\n",
    "proc/cmdline": "root=/dev/sda console=tty0 console=ttyS0,115200n8 quiet\n",
}


def told(folder: Path, **other: str) -> dict[str, float]:
    return {it.subject: it.value for it in consoles.read(node_of(folder, {**FILES, **other}))}


def test_the_consoles_of_a_node(tmp_path: Path) -> None:
    assert told(tmp_path / "a") == {"console:ttyS0": 11_520.0, "node": 4.0}
    assert told(tmp_path / "b", **{"proc/cmdline": "console=ttyS0\n"})["console:ttyS0"] == 960.0
    assert told(tmp_path / "c", **{"proc/consoles": "ttyS0    -W- (C  p a)    4:64\n"}) == {"node": 4.0}
    with pytest.raises(Unparsable):
        told(tmp_path / "d", **{"proc/consoles": "nonsense\n"})
