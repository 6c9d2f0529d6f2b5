"""Logs as people keep them: one story told in each format gives the same lines at the same times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from tests.zones import in_zone

from zombiescope.core import Unparsable
from zombiescope.kernel.log_text import LEVEL, parse_log

RESET = "ena 0000:00:05.0 eth0: Trigger reset is on"
AT = datetime(2026, 11, 12, 15, 12, 4, tzinfo=UTC).timestamp()
ENDED = AT + 3600.0


@pytest.fixture(autouse=True)
def _zone() -> Iterator[None]:
    """Times without a zone are this machine's: here it is two hours east of Greenwich, without summer time."""
    with in_zone("ZST-2"):
        yield


@pytest.mark.parametrize(
    ("line", "fraction"),
    [
        ("[Thu Nov 12 17:12:04 2026] {}", 0.0),
        ("[Thu Nov  2 17:12:04 2026] {}", -10 * 86400.0),
        ("2026-11-12T15:12:04,123456+00:00 {}", 0.123456),
        ("2026-11-12T17:12:04,5+02:00 {}", 0.5),
        ("2026-11-12T17:12:04,5 {}", 0.5),
        ("2026-11-12T15:12:04+0000 node-7 kernel: {}", 0.0),
        ("2026-11-12T15:12:04.123456Z node-7 kernel: {}", 0.123456),
        ("2026-11-12T20:42:04.123456+05:30 node-7 kernel: [12345.678901] {}", 0.123456),
        ("2026-11-12T11:42:04-0330 node-7 kernel: {}", 0.0),
        ("Nov 12 17:12:04 node-7 kernel: {}", 0.0),
        ("Nov 12 17:12:04.123456 node-7 kernel: {}", 0.123456),
        ("Nov 12 17:12:04 node-7 kernel: [12345.678901] {}", 0.0),
        ("Nov 12 17:12:04 node-7 kernel: [   45.678901] {}", 0.0),
    ],
)
def test_times_as_written(line: str, fraction: float) -> None:
    log = parse_log(line.format(RESET) + "\n", ended=ENDED)
    (found,) = log.lines
    assert (found.text, found.number, found.level) == (RESET, 1, LEVEL)
    assert found.at == pytest.approx(AT + fraction, abs=1e-5) and "as written" in log.clock


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("[12345.678901] {}", LEVEL),
        ("[    5.000000] {}", LEVEL),
        ("<4>[12345.678901] {}", 4),
        ("kern  :err   : [12345.678901] {}", 3),
        ("[12345.678901][ T1234] {}", LEVEL),
        ("[12345.678901] node-7 kernel: {}", LEVEL),
        ("4,339,12345678901,-;{}", 4),
        ("12,339,12345678901,-,caller=T1;{}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:05.0", 4),
    ],
)
def test_times_counted_from_boot_end_with_the_log(line: str, level: int) -> None:
    log = parse_log(line.format(RESET) + "\n", ended=ENDED)
    (found,) = log.lines
    assert (found.text, found.level) == (RESET, level)
    assert found.at == pytest.approx(ENDED) and "counted back" in log.clock


def test_the_distance_of_lines_is_kept() -> None:
    log = parse_log("[   10.5] a\n[   12.0] b\n\n[  100.25] c\n", ended=ENDED)
    assert [it.at - ENDED for it in log.lines] == [pytest.approx(it) for it in (-89.75, -88.25, 0.0)]
    assert [it.number for it in log.lines] == [1, 2, 4]


def test_a_second_boot_in_one_log() -> None:
    """Booted anew after 1,000 s; the first boot ended no later than the second began."""
    log = parse_log("[  900.0] a\n[ 1000.0] b\n[    0.0] c\n[    0.5] d\n[    0.4] e\n[   60.0] f\n", ended=ENDED)
    ago = [ENDED - it.at for it in log.lines]
    assert ago == [pytest.approx(it) for it in (160.0, 60.0, 60.0, 59.5, 59.6, 0.0)]


def test_the_year_is_the_last_such_day_before_the_end() -> None:
    text = "Dec 31 23:59:59 n kernel: a\nJan  1 00:00:01 n kernel: b\nFeb 30 00:00:00 n kernel: never\n"
    ended = datetime(2027, 1, 1, 0, 0, 5).timestamp()
    lines = parse_log(text, ended=ended).lines
    assert [(it.text, ended - it.at) for it in lines] == [("a", 6.0), ("b", 4.0)]
    # A log that was copied long after, in the year after.
    copied = parse_log("Dec 30 12:00:00 n kernel: a\n", ended=datetime(2027, 6, 1).timestamp()).lines
    assert datetime.fromtimestamp(copied[0].at).year == 2026
    # Lines out of order by less than a day do not lose a year.
    shuffled = parse_log("Nov 12 17:12:05 n kernel: a\nNov 12 17:12:04 n kernel: b\n", ended=ENDED).lines
    assert [it.at - AT for it in shuffled] == [1.0, 0.0]


JOURNAL = """\
-- Logs begin at Thu 2026-11-12 15:00:00 UTC. --
Nov 12 17:12:04 node-7 kernel: usb 1-1: new device
Nov 12 17:12:05 node-7 systemd[1]: ecs.service: Scheduled restart job, restart counter is at 7.
Nov 12 17:12:06 node-7 joker[99]: Trigger reset is on
-- Boot 7f3 --
Nov 12 17:12:07 node-7 kernel: Trigger reset is on
\tindented
"""


def test_writers_are_told_apart() -> None:
    assert [it.text for it in parse_log(JOURNAL, ended=ENDED).lines] == [
        "usb 1-1: new device",
        "systemd[1]: ecs.service: Scheduled restart job, restart counter is at 7.",
        "joker[99]: Trigger reset is on",
        "Trigger reset is on",
    ]
    chosen = parse_log(JOURNAL, ended=ENDED, of=("kernel", "systemd").__contains__).lines
    assert len(chosen) == 3 and not any("joker" in it.text for it in chosen)


def test_a_line_of_dmesg_with_a_colon_is_not_taken_for_a_writer() -> None:
    text = "[   10.5] usb 1-1: new device\n[   12.0] ena 0000:00:05.0: Trigger reset is on\n"
    assert [it.text for it in parse_log(text, ended=ENDED).lines] == [
        "usb 1-1: new device",
        "ena 0000:00:05.0: Trigger reset is on",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "hello\nworld\n",
        "#!/bin/sh\necho hello\n",
        '{"level": "info"}\n',
        "2026-11-12T15:12:04.123Z started\n2026-11-12T15:12:05.123Z stopped\n",
        "Nov 12 17:12:04 x\n",
        "\0\1\2\xff\n" * 10,
        "[   10.5] one line of a log\n" + "and nine of something else\n" * 9,
    ],
)
def test_what_is_no_log(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_log(text, ended=ENDED)


def test_a_torn_record_of_kmsg_is_told() -> None:
    with pytest.raises(Unparsable) as torn:
        parse_log("4,339,1,-;good\n4,339,12345678901,- no semicolon\n", ended=ENDED)
    assert torn.value.line == 2


def test_any_byte_may_be_in_a_line() -> None:
    (line,) = parse_log("[   10.5] \x1b[31m\udcff \x0c tab\t \r\n", ended=ENDED).lines
    assert line.text == "\x1b[31m\udcff \x0c tab\t \r"
