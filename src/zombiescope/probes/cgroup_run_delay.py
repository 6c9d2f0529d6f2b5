"""sched:sched_wakeup and sched_switch: how long the threads of each cgroup waited to run.

A histogram for each cgroup in each sample, as softirq_events gives them; the value is the longest wait. A wait is
counted when the thread leaves its core again. At most MOST cgroups, those with the longest waits; the others together.

Overhead: eBPF programs at three tracepoints, 0.6 to 0.75 µs a wait on a virtual machine. Beyond WAITS a second they are
    timed in a part of the time only: of 20,000, in 2 s of each 27 s. A sample takes 0.5 ms. `--no-bpf` leaves it out.
Kernel: include/trace/events/sched.h; whether a thread that leaves its core can go on is said since 9c2136be0878 (in
    v5.19). Needs CAP_BPF and CAP_PERFMON, or root, and cgroup version 2: where units are in version 1 only, all are in
    its root. pressure has what the kernel itself counts of this, thread_delay and processes have single threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.kernel.cgroup_ids import CgroupIds
from zombiescope.kernel.run_delays import OTHERS, Delays, RunDelays
from zombiescope.probes._core_times import RESTS, allowed, histogram

EVERY = 2.0
GIVES = ("cgroup_run_delay_seconds",)
EVENTS = GIVES  # each sample is a histogram of its own
CURVES = (("longest wait to run", "s", GIVES[0], "longest"),)
MOST = 32  # cgroups, those with the longest waits; the others together
WAITS = 1_500.0  # a second that are timed, on the average: 0.1 % of a core, on all cores together
SOURCE = "/sys/kernel/tracing/events/sched"
SINCE = (5, 19)
RELEASE = "/proc/sys/kernel/osrelease"


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Keeps the programs attached."""
    _allowed(host)
    with CgroupIds(host, unified=True) as ids, RunDelays(most=WAITS) as delays:

        def look() -> Iterator[Reading | Blind]:
            found = delays.read()
            if found is None:
                yield Blind(what=GIVES[0], source=SOURCE, why=RESTS, subject="node")
                return
            at, (seconds, rows) = host.now(), found
            for subject, it in _named(rows, ids):
                text = histogram(it.counts, it.total, seconds)
                yield Reading(what=GIVES[0], subject=subject, value=it.worst, at=at, source=SOURCE, text=text)

        yield look


def read(host: Host) -> Iterator[Reading]:
    _allowed(host)
    raise Unreadable(SOURCE, "waits are timed by watching, not by one sample")
    yield  # a generator, like every probe


def _allowed(host: Host) -> None:
    allowed(host, SOURCE)
    release = re.match(r"(\d{1,3})\.(\d{1,3})", host.read(RELEASE))
    if release is None or (int(release[1]), int(release[2])) < SINCE:
        raise Unreadable(SOURCE, f"needs Linux {SINCE[0]}.{SINCE[1]} or newer")


def _named(rows: list[Delays], ids: CgroupIds) -> Iterator[tuple[str, Delays]]:
    """The worst MOST that still have a path, and the others as one."""
    rows.sort(key=lambda it: it.worst, reverse=True)
    others = rows[MOST:]
    for it in rows[:MOST]:
        path = ids.path(it.cgroup) if it.cgroup != OTHERS else None
        if path is None:
            others.append(it)
        else:
            yield f"cgroup:{path}", it
    if others:
        counts = tuple(map(sum, zip(*(it.counts for it in others), strict=True)))
        worst, total = max(it.worst for it in others), sum(it.total for it in others)
        yield "cgroups:others", Delays(OTHERS, counts, worst, total)
