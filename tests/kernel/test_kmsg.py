"""The kernel log: records as kernels write them, and lines of our own that come back with their times."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.conftest import CANNOT

from zombiescope.core import Unparsable, Unreadable
from zombiescope.kernel import kmsg
from zombiescope.kernel.kmsg import KernelLog, Line, clock_behind, parse, parse_all

BTRFS = "6,348,3580784771,-;BTRFS info (device loop1): last unmount of filesystem bb5521f2"
LOG = f"""\
5,0,0,-;Linux version 6.18.44 (gcc (GCC) 15.3.0) #1 SMP
6,339,5140900,-,caller=T1;NET: Registered PF_INET; all of it
4,340,5160900,-;pci 0000:00:05.0: reset
 SUBSYSTEM=pci
 DEVICE=+pci:0000:00:05.0
{BTRFS}
"""


def test_parse() -> None:
    assert parse(BTRFS) == Line(6, 348, 3580.784771, "BTRFS info (device loop1): last unmount of filesystem bb5521f2")
    # Programs write with a facility; the level is the same.
    assert parse("14,353,4534860042,-;zs").level == 6
    # 3.5 had no flags, later ones have more fields.
    assert parse("3,1,2;old").text == "old"
    assert parse("3,1,2,-,caller=C0,more=x;a;b\n SUBSYSTEM=x").text == "a;b"


def test_text_is_kept_as_it_was_written() -> None:
    assert (
        parse(r"14,353,1,-;a \xff\x1b[31m \x5cx41 tab\x09 \xc3\xa4 \xzz").text == "a \udcff\x1b[31m \\x41 tab\t ä \\xzz"
    )


def test_a_copy_of_the_log() -> None:
    assert [it.number for it in parse_all(LOG)] == [0, 339, 340, 348]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        (" SUBSYSTEM=pci\n", 1),
        ("6,348,3580784771,- no semicolon\n", 1),
        (LOG + "6,349;x\n", 7),
        (LOG + "six,349,1,-;x\n", 7),
        (LOG + f"6,349,{'9' * 5000},-;x\n", 7),
        (LOG + "6,-1,1,-;x\n", 7),
    ],
)
def test_damage(text: str, line: int) -> None:
    with pytest.raises(Unparsable) as caught:
        list(parse_all(text))
    assert (caught.value.source, caught.value.line) == ("/dev/kmsg", line)


def test_no_log(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no such file"):
        KernelLog(str(tmp_path / "kmsg"))


@pytest.fixture
def log() -> Iterator[KernelLog]:
    try:
        opened = KernelLog()
    except Unreadable as error:
        pytest.skip(f"{CANNOT}{error}")
    with closing(opened):
        opened.past(0.0, 1)
        yield opened


def write(text: str) -> None:
    """One line of ours. The kernel takes ten a file in five seconds, so each has its own."""
    try:
        handle = os.open("/dev/kmsg", os.O_WRONLY)
    except OSError as error:
        pytest.skip(f"{CANNOT}write to /dev/kmsg: {error.strerror}")
    try:
        os.write(handle, f"<5>zombiescope-test {os.getpid()} {text}\n".encode())
    finally:
        os.close(handle)


def ours(lines: list[Line]) -> list[Line]:
    return [it for it in lines if f"zombiescope-test {os.getpid()} " in it.text]


@pytest.mark.kernel
def test_23_lines_come_back_with_their_times(log: KernelLog) -> None:
    written = []
    for number in range(23):
        before = time.time()
        write(f"line {number} é\x1b[31m")
        written.append((before, time.time()))
        time.sleep(0.003)
    found = ours(log.read(1_000))
    assert [it.text.rpartition("line ")[2] for it in found] == [f"{number} é\x1b[31m" for number in range(23)]
    assert {it.level for it in found} == {5}
    for line, (before, after) in zip(found, written, strict=True):
        assert before - 0.05 <= line.at <= after + 0.05
    assert ours(log.read(1_000)) == []


@pytest.mark.kernel
def test_times_where_the_clocks_cannot_be_compared(log: KernelLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a line is kept between two looks, however far the clocks are apart."""
    monkeypatch.setattr(kmsg, "clock_behind", lambda: None)
    monkeypatch.setattr(kmsg, "_unix_minus_monotonic", lambda: 0.0)
    monkeypatch.setattr(kmsg, "_ANCHOR", 0.0)
    before = time.time()
    log.read(1_000)
    write("between")
    (line,) = ours(log.read(1_000))
    assert before <= line.at <= time.time()


@pytest.mark.kernel
def test_what_is_too_much_is_counted(log: KernelLog) -> None:
    log.read(1_000)
    before = log.lost
    for number in range(7):
        write(str(number))
    found = log.read(3)
    assert len(found) == 3 and log.lost - before >= 4


@pytest.mark.kernel
@pytest.mark.usefixtures("log")
def test_the_past_is_told_once() -> None:
    write("past")
    with closing(KernelLog()) as second:
        (line,) = ours(second.past(60.0, 10_000))[-1:]
        assert line.text.endswith(" past") and abs(line.at - time.time()) < 5
        assert ours(second.read(1_000)) == []


@pytest.mark.kernel
def test_the_clocks_are_near_and_measured_alike() -> None:
    first, second = clock_behind(), clock_behind()
    if first is None or second is None:
        pytest.skip(f"{CANNOT}open a perf event")
    assert abs(first - second) < 0.001


@pytest.mark.parametrize("numbers", [(5, 6, 9), (5, 6, 7)])
def test_records_that_were_overwritten_are_counted(numbers: tuple[int, ...]) -> None:
    """A pipe in packet mode hands out one record a read, as the log does."""
    read_end, write_end = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
    try:
        with closing(KernelLog(f"/proc/self/fd/{read_end}")) as log:
            for number in numbers:
                os.write(write_end, f"6,{number},1,-;line {number}\n".encode())
            assert [it.number for it in log.past(float("inf"), 10)] == list(numbers)
            assert log.lost == numbers[-1] - numbers[0] - 2
    finally:
        os.close(read_end)
        os.close(write_end)
