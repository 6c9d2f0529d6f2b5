"""Six nodes whose text reports are kept as golden files: what a person on call reads."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from tests.diagnosis.incident import agent, card, dead, drowned, job, resets, starved, walk
from tests.nodes import cores, quiet_node, read
from tests.signs.test_oom_kill import killed, why

from zombiescope.core import Reading
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import load

GOLDEN = Path(__file__).parent / "golden"


def incident(folder: Path) -> Timeline:
    parts = (agent(), dead(), drowned(), starved(), card(), resets(), job())
    rest = _rest("unit_restarts", "cgroup_", "thread_")
    return quiet_node(folder, but=[*rest, *(it for part in parts for it in part)], samples=walk(), hz=49)


def _rest(*but: str) -> list[Reading]:
    return [it for it in REST if not it.what.startswith(but)]


def crash_loop(folder: Path) -> Timeline:
    return quiet_node(
        folder, but=[*_rest("unit_restarts", "cgroup_"), *agent("telemetry.service", leaks=False)], samples=IDLING
    )


def throttling(folder: Path) -> Timeline:
    group = "cgroup:/kubepods/burstable/podcafe/web"
    busy = cores({cpu: [{"user": 0.1}] * 80 for cpu in (0, 1)})
    counters = ("cgroup_throttled_seconds_total", "cgroup_throttled_periods_total", "cgroup_periods_total")
    stopped = [
        read(what, group, value * at, at)
        for at in range(0, 21, 2)
        for what, value in zip(counters, (0.7, 9.0, 10.0), strict=True)
    ]
    return quiet_node(folder, but=[*REST, *busy, *stopped], samples=IDLING)


def oom_kill(folder: Path) -> Timeline:
    lines = [
        read("kernel_log", "node", 3, 4.0 + place / 100, text) for place, text in enumerate((why(4242), killed(4242)))
    ]
    counted = [read("vmstat_oom_kill_total", "node", value, at) for at, value in ((0.0, 3.0), (10.0, 4.0))]
    return quiet_node(folder, but=[*REST, *lines, *counted], samples=IDLING)


def healthy(folder: Path) -> Timeline:
    """Every check could look."""
    return quiet_node(folder, but=REST, samples=IDLING)


def ordinary_user(folder: Path) -> Timeline:
    """What an ordinary user may not read, on the same healthy node."""
    return quiet_node(folder, but=REST, unseen=REFUSED)


# What a copy of a machine's files cannot hold, as a healthy machine has it.
REST = [
    read(what, subject, value, at)
    for at in (0.0, 10.0)
    for what, subject, value in (
        ("agent_enabled", "agent:docker", 0.0),
        ("blocked_processes", "node", 0.0),
        ("clock_read_seconds", "clock:tsc", 6e-8),
        ("disk_requests_total", "disk:nvme0n1", 5.0),
        ("inotify_instances", "user:0", 9.0),
        ("net_accepts_refused_total", "node", 0.0),
        ("net_segments_received_total", "node", 5.0),
        ("numa_memory_bytes", "numa:0", 25e9),
        ("process_blocked_seconds", "process:init[1]", 0.0),
        ("routing_rule_change", "node", 1.0),
        ("stopped_processes", "node", 0.0),
        ("table_used", "table:threads", 144.0),
        ("cgroup_births_total", "family:/system.slice/ssh.service", 0.0),
        ("cgroup_removals_total", "family:/system.slice/ssh.service", 0.0),
        ("cgroup_releases_total", "family:/system.slice/ssh.service", 0.0),
        ("defunct_children", "process:init[1]", 0.0),
        ("process_realtime_priority", "process:init[1]", 0.0),
        ("process_user_seconds_total", "process:init[1]", 1.0),
        ("process_system_seconds_total", "process:init[1]", 1.0),
        ("process_run_delay_seconds_total", "process:init[1]", 0.1),
        ("stat_read_seconds", "file:memory.stat", 0.0002),
        ("stat_read_cpu_seconds", "file:memory.stat", 0.0001),
        ("thread_run_delay_seconds_total", "thread:ksoftirqd/0", 0.1),
        ("thread_run_seconds_total", "thread:ksoftirqd/0", 0.1),
        ("unit_active", "unit:ssh.service", 1.0),
        ("unit_restarts_total", "unit:ssh.service", 0.0),
    )
]
IDLING = [(float(second), 0, "init[1]", "main;epoll_wait") for second in range(11)]


REFUSED: Mapping[str, str] = {
    "kernel_log": "operation not permitted",
    "samples_total": "permission denied",
    "kernel_symbols": "permission denied",
    "cgroup_births_total": "permission denied",
    "cgroup_removals_total": "permission denied",
}
REPORTS: Mapping[str, Callable[[Path], Timeline]] = {
    "incident": incident,
    "crash-loop": crash_loop,
    "throttling": throttling,
    "oom-kill": oom_kill,
    "healthy-node": healthy,
    "ordinary-user": ordinary_user,
}


def report(name: str, folder: Path, *, evidence: bool = False) -> str:
    out = io.StringIO()
    written(name, folder, out, evidence=evidence)
    return out.getvalue()


def written(name: str, folder: Path, out: TextIO, *, evidence: bool = False) -> None:
    """As wide as what it is written to, if that is a terminal."""
    timeline = REPORTS[name](folder)
    case = examine(timeline, node="ip-10-0-0-7", kernel="5.4.0-1103-aws")
    output = load("outputs", "text")
    (output.write_evidence if evidence else output.write)(case, timeline, out)


if __name__ == "__main__":  # all of them, each after its name: for a terminal
    for name in REPORTS:
        print(f"== {name}")
        with tempfile.TemporaryDirectory() as folder:
            written(name, Path(folder), sys.stdout)
    print("== end")
