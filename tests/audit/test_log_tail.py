"""audit/log_tail: what was added and nothing twice; rotation, cut lines, storms; no way out of the root."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from zombiescope.audit.log_tail import Place, Tail, identity, listing
from zombiescope.core import Unreadable

MOST = 1_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / "a.log"
    path.write_text("one\ntwo\n")
    return path


def place(log: Path) -> Place:
    return Place(str(log.parent.parent), f"/logs/{log.name}", f"/proc/7/root/logs/{log.name}")


def add(log: Path, text: str) -> None:
    with log.open("a") as out:
        out.write(text)


def test_each_line_once_and_only_when_whole(log: Path) -> None:
    tail = Tail(place(log))
    assert tail.new(MOST) == ["one", "two"] and tail.modified == log.stat().st_mtime
    assert tail.new(MOST) == []
    add(log, "thr")
    assert tail.new(MOST) == []
    add(log, "ee\nfour\n")
    assert tail.new(MOST) == ["three", "four"]


@pytest.mark.parametrize(("how", "line"), [("renamed", "x"), ("renamed", "longer than before"), ("truncated", "x")])
def test_rotation(how: str, line: str, log: Path) -> None:
    tail = Tail(place(log))
    tail.new(MOST)
    if how == "renamed":
        log.rename(log.with_suffix(".1"))
    log.write_text(f"{line}\n")
    assert tail.new(MOST) == [line]


def test_of_a_storm_the_end_is_kept_and_the_rest_counted(log: Path) -> None:
    tail = Tail(place(log))
    tail.new(MOST)
    add(log, "".join(f"line {number}\n" for number in range(10_000)))
    lines = tail.new(MOST)
    assert lines == log.read_bytes()[-MOST:].decode().split("\n")[1:-1] and 80 < len(lines) < 100
    assert tail.skipped == log.stat().st_size - MOST - len("one\ntwo\n") > 90_000
    once, size = tail.skipped, log.stat().st_size
    add(log, "x" * 4 * MOST + "\n")
    tail.new(MOST)
    assert tail.skipped == once + log.stat().st_size - MOST - size, "twice as much is twice counted"
    add(log, "x" * 5_000)  # a line longer than all we read
    assert tail.new(MOST) == []
    add(log, "\nafter\n")
    assert tail.new(MOST) == ["", "after"]


def test_odd_bytes_are_kept(log: Path) -> None:
    log.write_bytes(b"\xff\x1b[31m\r\x0c\n")
    assert Tail(place(log)).new(MOST) == ["\udcff\x1b[31m\r\x0c"]


@pytest.mark.parametrize("what", ["link", "folder link", "FIFO", "folder", "missing"])
def test_what_is_no_log_is_said_and_no_link_is_followed(what: str, log: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret" / "a.log"
    secret.parent.mkdir()
    secret.write_text("secret\n")
    log.unlink()
    if what == "link":
        log.symlink_to(secret)
    elif what == "folder link":
        log.parent.rmdir()
        log.parent.symlink_to(secret.parent)
    elif what == "FIFO":
        os.mkfifo(log)
    elif what == "folder":
        log.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Unreadable) as refused:
        Tail(place(log)).new(MOST)
    assert refused.value.source == "/proc/7/root/logs/a.log" and refused.value.why
    assert len(os.listdir("/proc/self/fd")) == before, "what was opened on the way is closed"


def test_dots_lead_nowhere(log: Path, tmp_path: Path) -> None:
    assert listing(Place(str(tmp_path), "/../logs/.", "/x")) == (["a.log"], False)
    with pytest.raises(Unreadable):
        listing(Place(str(log.parent), "/../logs", "/x"))


def test_one_folder_by_two_ways_is_one(log: Path, tmp_path: Path) -> None:
    one = identity(Place(str(tmp_path), "/logs", "/a"))
    assert one == identity(Place("/", f"{tmp_path}/logs", "/b"))
    assert one != identity(Place("/", str(tmp_path), "/c"))
    assert log.exists()


def test_an_empty_log_and_one_exactly_as_long_as_a_read(log: Path) -> None:
    log.write_text("")
    tail = Tail(place(log))
    assert tail.new(MOST) == [] and tail.skipped == 0
    add(log, "x" * (MOST - 1) + "\n")
    assert tail.new(MOST) == ["x" * (MOST - 1)] and tail.skipped == 0
    add(log, "y" * (MOST - 1))
    assert tail.new(MOST) == []
    add(log, "\n")
    assert tail.new(MOST) == ["y" * (MOST - 1)], "an unfinished line that fits is waited for"


def test_a_fifo_on_the_way_to_a_log_does_not_hang_us(log: Path) -> None:
    log.unlink()
    log.parent.rmdir()
    os.mkfifo(log.parent)
    signal.alarm(20)  # ends the test by a signal: to open a FIFO waits for a writer
    try:
        with pytest.raises(Unreadable, match="not a directory"):
            Tail(place(log)).new(MOST)
    finally:
        signal.alarm(0)
