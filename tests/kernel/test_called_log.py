"""The kernel log by syslog(2): the same lines at the same times as /dev/kmsg, each once; a refusal is said."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.conftest import CANNOT

from zombiescope.core import Host, Reading, Unreadable
from zombiescope.kernel import called_log
from zombiescope.kernel.called_log import CalledLog
from zombiescope.kernel.kmsg import KernelLog
from zombiescope.probes import kmsg

pytestmark = pytest.mark.alone


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[CalledLog]:
    monkeypatch.setattr(called_log, "PAUSE", 0.0)
    try:
        with closing(KernelLog()):
            opened = CalledLog()
    except Unreadable as error:
        pytest.skip(f"{CANNOT}{error}")
    with closing(opened):
        yield opened


def write(text: str) -> None:
    try:
        with open("/dev/kmsg", "w") as device:
            device.write(text)
    except OSError as error:
        pytest.skip(f"{CANNOT}{error}")


def test_it_is_the_same_log(log: CalledLog) -> None:
    write(f"<5>zs called {os.getpid()} first\n")
    with closing(KernelLog()) as other:
        ours, theirs = log.past(60.0, 1_000), other.past(60.0, 1_000)
    # Some records have several lines: the device gives one, the call a line for each.
    words = f"zs called {os.getpid()} first"
    (one,), (two,) = ([it for it in found if it.text == words] for found in (ours, theirs))
    assert one.level == two.level == 5 and one.at == pytest.approx(two.at, abs=0.1)


def test_each_line_comes_once(log: CalledLog) -> None:
    log.past(60.0, 1_000)
    assert not [it for it in log.read(1_000) if f"zs called {os.getpid()}" in it.text]
    write(f"<3>zs called {os.getpid()} second \x1b[31m \udcff\n".encode("utf-8", "replace").decode())
    (found,) = [it for it in log.read(1_000) if f"zs called {os.getpid()} second" in it.text]
    assert abs(found.at - time.time()) < 5 and found.level == 3
    assert not [it for it in log.read(1_000) if f"zs called {os.getpid()}" in it.text]
    assert log.lost == 0


def test_lines_that_were_overwritten_are_lost(log: CalledLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.past(60.0, 1_000)
    monkeypatch.setattr(log, "_copy", lambda: b"\n<6>[99.000001] another\n")
    assert [it.text for it in log.read(10)] == ["another"]
    assert log.lost == 1


def test_it_is_not_asked_all_the_time() -> None:
    try:
        log = CalledLog()
    except Unreadable as error:
        pytest.skip(f"{CANNOT}{error}")
    log.past(1.0, 1)
    write(f"<5>zs called {os.getpid()} third\n")
    assert log.read(1_000) == []


def test_a_log_without_times_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CalledLog, "_copy", lambda _: b"\n<6>no time\n")
    with pytest.raises(Unreadable, match="no times"):
        CalledLog()


def test_the_probe_asks_the_call_where_the_device_is_forbidden(log: CalledLog, monkeypatch: pytest.MonkeyPatch) -> None:
    assert log.source == "$ dmesg"
    monkeypatch.setattr(kmsg, "SOURCE", "/dev/no-such-device")
    write(f"<4>zs called {os.getpid()} fourth\n")
    found = [it for it in kmsg.read(Host()) if isinstance(it, Reading) and it.what == "kernel_log"]
    assert [it.source for it in found if it.text == f"zs called {os.getpid()} fourth"] == ["$ dmesg"]


def test_a_refusal_is_that_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: CalledLog) -> bytes:
        raise Unreadable("$ dmesg", "operation not permitted")

    monkeypatch.setattr(kmsg, "SOURCE", "/dev/no-such-device")
    monkeypatch.setattr(CalledLog, "_copy", refused)
    with pytest.raises(Unreadable, match="/dev/kmsg: no such file"):
        list(kmsg.read(Host()))
