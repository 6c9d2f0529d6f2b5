"""A log's text file is a recording too: diagnosed like one, and refused in one line if it is none."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from tests.conftest import Run

from zombiescope.core import UserError
from zombiescope.recorder import log_file
from zombiescope.recorder.log_file import timeline_of_log

ENA = "ena 0000:00:05.0 ens5: "
PAUSED = f"{ENA}TX q 5 is paused for too long (threshold 5000000). usecs since napi 6012000. napi scheduled: 1"
LOG = f"""\
[86480.000000] usb 1-1: new full-speed USB device number 2 using xhci_hcd
[86490.000000] {PAUSED}
[86490.000100] {ENA}napi handler hasn't been called for a long time but is scheduled
[86490.000200] {ENA}Trigger reset is on
[86490.000300] {ENA}total_resets: 4
[86490.400000] ena 0000:00:05.0: Device reset completed, status: 0, Driver info: ENA v2.16.1g
[86500.000000] {ENA}link up
"""
ENDED = 1_794_000_000.0


def zstd(data: bytes) -> bytes:
    return bytes(pyarrow.compress(data, "zstd", asbytes=True))


def saved(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    os.utime(path, (ENDED, ENDED))
    return str(path)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zstd])
def test_a_log_is_a_timeline(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = saved(tmp_path / "kern.log", pack(LOG.encode()))
    timeline, clock = timeline_of_log(path)
    log = timeline.series("kernel_log")
    assert len(log) == 7 and log.latest.at == ENDED and log.latest.source == path
    assert timeline.span.start == pytest.approx(ENDED - 20) and timeline.span.end == ENDED
    assert timeline.looked_for() == ["kernel_log"] and "counted back" in clock


def test_diagnosed_as_a_user_would(tmp_path: Path, zombiescope: Run) -> None:
    path = saved(tmp_path / "kern.log.1.gz", gzip.compress(LOG.encode()))
    done = zombiescope("diagnose", path, "--format", "json", expect=1)
    assert "kern.log.1.gz: dmesg: times counted back" in done.stderr
    shape = json.loads(done.stdout)
    (found,) = shape["findings"]
    assert (found["sign"], found["subject"]) == ("driver_reset", "nic:ens5")
    assert "was reset by driver ena" in found["says"] and "queue 5, 6.0 s since its last poll" in found["says"]
    assert found["span"]["start"] == pytest.approx(ENDED - 10) and found["span"]["end"] == pytest.approx(ENDED - 9.6)
    states = {it["sign"]: it["state"] for it in shape["verdicts"]}
    assert states["soft_lockup"] == states["oom_kill"] == states["conntrack_full"] == "clear"
    assert states["saturated_core"] == "blind"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"\x7fELF\0\0\0" * 100, "a binary file"),
        (b"hello\x1b[31m\nworld\n", "not a log format we read .“hello"),
        (gzip.compress(LOG.encode(), mtime=0)[:50], "ended before the end"),
        (bz2.compress(LOG.encode())[:50], "ended before the end"),
        (lzma.compress(LOG.encode())[:90] + bytes(100), "corrupt"),
        (zstd(LOG.encode())[:50], "truncated"),
        (b"\x1f\x8b\x08garbage in place of a stream", "unknown compression|invalid|ended before"),
        (b"Nov 12 17:12:04 node-7 sshd[7]: Accepted publickey\n", "no line of the kernel"),
    ],
)
def test_what_is_no_log_is_told_in_one_line(tmp_path: Path, data: bytes, why: str) -> None:
    path = saved(tmp_path / "file", data)
    with pytest.raises(UserError, match=why) as refused:
        timeline_of_log(path)
    assert str(refused.value).startswith(path) and "\n" not in str(refused.value) and "\x1b" not in str(refused.value)


def test_neither_absent_nor_a_fifo_nor_endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no such file"):
        timeline_of_log(str(tmp_path / "absent"))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UserError, match="not a regular file"):
        timeline_of_log(str(tmp_path / "fifo"))
    monkeypatch.setattr(log_file, "LARGEST", 1 << 20)
    with pytest.raises(UserError, match="larger than 1 MB"):
        timeline_of_log(saved(tmp_path / "bomb.gz", gzip.compress(b"[    1.0] x\n" * 200_000)))
