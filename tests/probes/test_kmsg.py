"""kmsg: the log of a recorded root, bounded, and the live one from its first look on."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.probes.machine import AT, damage_in, machine, unseen

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.probes import kmsg

LOG = r"""5,0,0,-;Linux version 6.1.0
6,339,350134000000,-;too old
4,340,350500000000,-;ena 0000:00:05.0 eth0: TX hasn't completed, qid 3 \x1b[31m
 SUBSYSTEM=pci
 DEVICE=+pci:0000:00:05.0
3,341,350735000000,-;ena 0000:00:05.0: Trigger reset is on
6,342,350999000000,-;from a clock that ran fast
"""
NODE = {"at": f"{AT}\n", "dev/kmsg": LOG, "proc/uptime": "350735.00 234388.90\n"}


def readings(host: Host) -> list[tuple[float, float, str]]:
    seen = [it for it in kmsg.read(host) if isinstance(it, Reading) and it.what == "kernel_log"]
    return [(it.value, it.at - AT, it.text) for it in seen]


def test_read(tmp_path: Path) -> None:
    host = machine(tmp_path, NODE)
    assert readings(host) == [
        (4, -235, "ena 0000:00:05.0 eth0: TX hasn't completed, qid 3 \x1b[31m"),
        (3, 0, "ena 0000:00:05.0: Trigger reset is on"),
        (6, 0, "from a clock that ran fast"),
    ]
    lost = [it for it in kmsg.read(host) if it.what == "kernel_log_lost_total"]
    assert [(it.subject, it.value) for it in lost if isinstance(it, Reading)] == [("node", 0)]


def test_the_latest_are_kept_and_the_rest_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmsg, "MOST", 2)
    host = machine(tmp_path, NODE)
    assert [text.split()[0] for *_, text in readings(host)] == ["ena", "from"]
    assert unseen(kmsg, host) == {"kernel_log": "1 lines were lost: they came too fast; 2 were read"}
    assert [it.value for it in kmsg.read(host) if isinstance(it, Reading) and "lost" in it.what] == [1]


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    host = machine(tmp_path, NODE | {"dev/kmsg": f"6,1,350735000000,-;{'x' * 5000}\n"})
    assert readings(host) == [(6, 0, "x" * 1000)]


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [("dev/kmsg", "", 1), ("dev/kmsg", LOG + "6;x\n", 8), ("proc/uptime", "", 1), ("proc/uptime", "nan 1\n", 1)],
)
def test_damage(tmp_path: Path, file: str, text: str, line: int) -> None:
    assert damage_in(kmsg.read, machine(tmp_path, NODE | {file: text})) == (f"/{file}", line)


def test_no_log(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="/dev/kmsg"):
        list(kmsg.read(machine(tmp_path, {})))


@pytest.mark.kernel
def test_each_line_is_told_once() -> None:
    mark = f"zombiescope-test {os.getpid()} {time.monotonic_ns()}"

    def write(number: int) -> None:
        with open("/dev/kmsg", "w") as log:
            log.write(f"<4>{mark} {number}\n")

    def told(seen: list[Reading | Blind]) -> list[str]:
        return [it.text.rpartition(" ")[2] for it in seen if isinstance(it, Reading) and mark in it.text]

    try:
        write(0)
        with kmsg.watch(Host()) as look:
            assert told(list(look())) == ["0"]  # what was there before
            for number in range(1, 24):
                write(number)
            assert told(list(look())) == [str(number) for number in range(1, 24)]
            assert told(list(look())) == []
        assert len(told(list(kmsg.read(Host())))) == 24
    except (OSError, Unreadable) as error:
        pytest.skip(f"{CANNOT}{error}")


def test_a_run_of_the_lab_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = machine(tmp_path, NODE)
    monkeypatch.delenv("ZOMBIESCOPE_LAB", raising=False)
    assert "lab_run" not in {it.what for it in kmsg.read(host)}
    monkeypatch.setenv("ZOMBIESCOPE_LAB", "1")
    assert "lab_run" in {it.what for it in kmsg.read(host)}
