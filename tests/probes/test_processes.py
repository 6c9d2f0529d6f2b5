"""processes: who used most, told without a leap, under any name a process may give itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.nodes import node as recording
from tests.probes.machine import damage_in, machine, told, unseen

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.probes import processes
from zombiescope.probes._process_stat import Process, parse
from zombiescope.probes.processes import COUNTS, GIVES, LIMIT, TIMES

INIT = (  # Linux 5.4, then 2.6.32, which has fewer fields
    "1 (systemd) S 0 1 1 0 -1 4194560 70318 2116398 91 1233 212 478 4713 2206 20 0 1 0 7 173817856 3229 "
    "18446744073709551615 1 1 0 0 0 0 671173123 4096 1260 0 0 0 17 3 0 0 14 0 0 0 0 0 0 0 0 0 0\n"
)
OLD = (
    "1 (init) S 0 1 1 0 -1 4202752 4011 128344 13 96 3 75 121 108 20 0 1 0 2 19693568 310 18446744073709551615 1 1 0\n"
)


def stat(
    pid: int,
    user: int = 0,
    system: int = 0,
    *,
    name: str = "a",
    state: str = "S",
    born: int = 100,
    parent: int = 1,
    children: int = 0,
    threads: int = 1,
    cpu: int = 0,
    priority: int = 0,
    policy: int = 0,
    nice: int = 0,
) -> str:
    """As Linux 6.x writes it."""
    tail = "18446744073709551615 1 1 0 0 0 0 671173123 4096 1260 0 0 0 17"
    return (
        f"{pid} ({name}) {state} {parent} 1 1 0 -1 4194304 95 0 0 0 {user} {system} {children} 0 20 {nice} {threads} 0 "
        f"{born} 9 9 {tail} {cpu} {priority} {policy} 14 0 0 0 0 0 0 0 0\n"
    )


def node(*stats: str) -> dict[str, str]:
    return {f"proc/{text.partition(' ')[0]}/stat": text for text in stats}


def users(seen: Iterable[Reading | Blind]) -> list[tuple[str, float, float]]:
    return [(it.subject, it.value, it.at) for it in seen if isinstance(it, Reading) and it.what == GIVES[0]]


def test_parse() -> None:
    assert parse(INIT) == Process(1, "systemd", "S", 2.12, 4.78, 7, parent=0, children=69.19, cpu=3)
    assert parse(OLD) == Process(1, "init", "S", 0.03, 0.75, 2, children=2.29), "where it ran is not told"
    assert parse(stat(7, parent=4, threads=9, cpu=2, priority=50, policy=1)).realtime == (50, "SCHED_FIFO 50")
    assert parse(stat(7, priority=0, policy=6)).realtime == (100, "SCHED_DEADLINE")
    assert parse(stat(7, policy=3)).realtime is None, "SCHED_BATCH is as ordinary as any"


@pytest.mark.parametrize("name", ["a b", "a) R 1 (b", ")", "", "((", "new\nline)", "\x1b[31m", "\udcff", ") Z 1 1"])
def test_any_name(name: str) -> None:
    assert parse(stat(7, 150, 50, name=name)) == Process(7, name, "S", 1.5, 0.5, 100, parent=1, cpu=0)


@pytest.mark.parametrize(
    "text",
    ["", "7\n", "7 (a\n", "7 (a)\n", INIT[:40], "7 (a) " + "x " * 40, stat(7, born=int("9" * 400)), stat(-7)],
)
def test_damage(text: str) -> None:
    assert damage_in(parse, text, "7") == ("/proc/7/stat", 1)


def test_read(tmp_path: Path) -> None:
    host = machine(
        tmp_path,
        node(stat(1, 212, 478, name="systemd"), stat(2, name="idle"), stat(3, state="Z"), stat(4, 1, state="D"))
        | {"proc/stat": "", "proc/self/": ""},
    )
    assert told(processes, host) == {
        ("process_user_seconds_total", "process:systemd[1]"): 2.12,
        ("process_system_seconds_total", "process:systemd[1]"): 4.78,
        ("process_user_seconds_total", "process:a[4]"): 0.01,
        ("process_system_seconds_total", "process:a[4]"): 0,
        ("processes", "node"): 4,
        ("defunct_processes", "node"): 1,
        ("blocked_processes", "node"): 1,
        ("stopped_processes", "node"): 0,
        ("process_cpu", "process:systemd[1]"): 0,
        ("process_cpu", "process:a[4]"): 0,
        ("threads_unread", "node"): 0,
    }
    assert [it.text for it in processes.read(host) if isinstance(it, Reading) and it.what == COUNTS[0]] == ["a[3]"]
    assert {"defunct_children", LIMIT, "process_run_delay_seconds_total"} <= set(unseen(processes, host))


def test_the_first_few(tmp_path: Path) -> None:
    host = machine(tmp_path, node(*(stat(pid, pid) for pid in range(1, 101))))
    assert {subject for subject, *_ in users(processes.read(host))} == {f"process:a[{pid}]" for pid in range(81, 101)}


def test_more_than_we_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST", 3)
    host = machine(tmp_path, node(*(stat(pid, pid) for pid in (1, 2, 30, 4))))
    seen = told(processes, host)
    assert seen["processes", "node"] == 4
    assert ("process_user_seconds_total", "process:a[4]") in seen
    assert ("process_user_seconds_total", "process:a[30]") not in seen
    assert {*TIMES, *COUNTS} <= set(unseen(processes, host)), "a count of some is no count"
    assert all(it.subject == "node" for it in processes.read(host) if isinstance(it, Blind) and it.what in TIMES)


def test_no_process(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="/proc"):
        list(processes.read(machine(tmp_path, {"proc/stat": ""})))


class Node:
    """A recorded root that goes on."""

    def __init__(self, root: Path) -> None:
        self.root, self.at = root, 0

    def go_on(self, *stats: str) -> Host:
        self.at += 5
        return machine(self.root, {"at": str(self.at), **node(*stats)})


class Clock(Host):
    def now(self) -> float:
        return float(self.read("/at"))


@pytest.fixture
def going(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_by_what_was_used_since_the_last_look(going: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "TOP", 1)
    going.go_on(stat(1, 9000), stat(2, 100))
    with processes.watch(Clock(str(going.root), live=False)) as look:
        assert users(look()) == [("process:a[1]", 90, 5)]
        going.go_on(stat(1, 9000), stat(2, 400))
        # Where it stood at the last look is told as well, so that the first stretch has a rate.
        assert users(look()) == [("process:a[2]", 1, 5), ("process:a[2]", 4, 10)]
        # One that was born since had used nothing; who was told once is told on, if it used any.
        going.go_on(stat(1, 9001), stat(2, 400), stat(3, 500))
        assert users(look()) == [("process:a[1]", 90.01, 15), ("process:a[3]", 0, 10), ("process:a[3]", 5, 15)]


def test_another_name_begins_where_the_process_stood(going: Node) -> None:
    going.go_on(stat(7, 100, name="sh"))
    with processes.watch(Clock(str(going.root), live=False)) as look:
        assert users(look()) == [("process:sh[7]", 1, 5)]
        going.go_on(stat(7, 300, name="java"))
        assert users(look()) == [("process:java[7]", 1, 5), ("process:java[7]", 3, 10)]
        going.go_on(stat(7, 10, name="java", born=999))  # another process with the same pid
        assert users(look()) == [("process:java[7]", 0, 10), ("process:java[7]", 0.1, 15)]


def test_a_rate_never_leaps(going: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is busy for a while, then out of the first few for long, then busy again."""
    monkeypatch.setattr(processes, "TOP", 1)
    used = {1: 0, 2: 0}
    seen: list[Reading] = []
    with processes.watch(Clock(str(going.root), live=False)) as look:
        for step in range(30):
            busy = 1 if step < 3 or step > 25 else 2
            used = {pid: ticks + (400 if pid == busy else 40) for pid, ticks in used.items()}
            going.go_on(*(stat(pid, ticks) for pid, ticks in used.items()))
            seen += [it for it in look() if isinstance(it, Reading)]
    rate = recording(seen).rate(GIVES[0], "process:a[1]")
    assert (max(rate.values), min(rate.values)) == pytest.approx((0.8, 0.08))


def test_no_more_are_followed_than_allowed(going: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "FOLLOWED", 2)
    going.go_on(*(stat(pid, pid) for pid in range(1, 6)))
    with processes.watch(Clock(str(going.root), live=False)) as look:
        seen = list(look())
    assert [subject for subject, *_ in users(seen)] == ["process:a[5]", "process:a[4]"]
    assert {it.why for it in seen if isinstance(it, Blind) and it.what in TIMES} == {
        "3 busy processes more than processes.FOLLOWED are not reported"
    }


@pytest.mark.kernel
def test_a_spinning_child_is_at_the_top() -> None:
    with processes.watch(Host()) as look:
        list(look())
        child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        dead = os.fork()
        if not dead:
            os._exit(0)
        try:
            time.sleep(1.0)
            seen = list(look())
        finally:
            child.kill()
            child.wait()
            os.waitpid(dead, 0)
    rises: dict[str, list[float]] = {}
    for subject, value, _at in users(seen):
        rises.setdefault(subject, []).append(value)
    ranks = sorted((values[-1] - values[0], subject) for subject, values in rises.items())
    mine = [rise for rise, subject in ranks if subject.endswith(f"[{child.pid}]")]
    # Others may be as busy here, but of 20 places ours is one, and it used what a core that is shared gives.
    assert len(mine) == 1 and mine[0] > 0.1
    (defunct,) = [it for it in seen if isinstance(it, Reading) and it.what == "defunct_processes"]
    assert defunct.value >= 1


def test_one_odd_line_of_a_copied_root_costs_that_process_alone(tmp_path: Path) -> None:
    files = node(stat(1, 212, 478, name="systemd"), stat(2, 5)) | {"proc/7/stat": "7 (cut of", "proc/8/stat": "\n"}
    host = machine(tmp_path, files)
    assert told(processes, host)["process_user_seconds_total", "process:systemd[1]"] == 2.12
    blind = {it.subject: it.source for it in processes.read(host) if isinstance(it, Blind) and it.subject}
    assert blind == {"process:[7]": "/proc/7/stat", "process:[8]": "/proc/8/stat"}
    with pytest.raises(Unreadable, match=r"/proc"):
        told(processes, machine(tmp_path / "worse", {"proc/7/stat": "7 (cut of"}))
