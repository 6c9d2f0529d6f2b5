"""The kernel's log reports faults that no other sign explains: oopses, hardware errors, links that went down, crashes.

Why it hurts: an oops leaves locks held, a memory error or a GPU that fell off the bus kills what used it, and a link
    that flaps drops every connection over it. Each is in the log, which is not read while a node looks healthy.
False alarms: that a line was logged does not mean that it hurt anybody. So these are noted, with their count; they are
    accused only where a law ties one to a job that failed or a task that is blocked. Segmentation faults of a program
    are its own, a link goes down when somebody pulls the cable, and one corrected memory error is ordinary. Urgent
    lines of no known kind are noted too, so that a log full of faults is never called clear.
References: Documentation/admin-guide/bug-hunting.rst; Documentation/admin-guide/ras.rst; NVIDIA's list of Xid errors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from zombiescope.core import Blind, Finding, Reading, Span, harmless
from zombiescope.core.harm import Harm
from zombiescope.core.timeline import Timeline
from zombiescope.derived.episodes import episodes
from zombiescope.derived.kernel_log import LOG, Line, lines_of, log_of, unheard

# Scale: events of one device or process: the same on any node.
NEEDS = (LOG,)
EPISODE = 600.0  # seconds: as long as the log is read back; what comes again within it is the same trouble
SHOWN = 4  # lines of one finding, as evidence
NAMED = 3  # things named in a sentence: a driver that fails logs hundreds of lines
# In words, one and several. Kinds that another sign reads without anything else (lockups, OOM kills, …) are not here.
_KINDS: dict[str, tuple[str, str]] = {
    "oops": ("a kernel bug (oops)", "kernel bugs (oops)"),
    "panic": ("a kernel panic", "kernel panics"),
    "kernel_warning": ("a kernel warning", "kernel warnings"),
    "workqueue_lockup": ("a workqueue lockup", "workqueue lockups"),
    "workqueue_hog": ("a work item that hogs its core", "work items that hog their core"),
    "netdev_stuck": ("a wait for a network device that is not released", "waits for a network device not released"),
    "page_allocation_failure": ("a failed page allocation", "failed page allocations"),
    "split_lock": ("a split lock, which the kernel slows down", "split locks, which the kernel slows down"),
    "gpu_fault": ("a GPU fault", "GPU faults"),
    "machine_check": ("a machine check", "machine checks"),
    "memory_error": ("a memory error", "memory errors"),
    "hardware_error": ("a hardware error", "hardware errors"),
    "overheated": ("throttling because of heat", "reports of throttling because of heat"),
    "nic_link_down": ("a link that went down", "times that the link went down"),
    "disk_error": ("an I/O error", "I/O errors"),
    "filesystem_error": ("a file system error", "file system errors"),
    "filesystem_read_only": ("a file system that became read-only", "file systems that became read-only"),
    "segfault": ("a crash of a program", "crashes of programs"),
    "clock_unstable": ("a clock that was given up as unstable", "reports of an unstable clock"),
    "audit_backlog": ("a full queue of audit records", "reports that the queue of audit records is full"),
    "cgroup_exhausted": ("a cgroup that could not be made", "cgroups that could not be made"),
    "cgroup_stuck": ("a cgroup that could not be removed", "cgroups that could not be removed"),
    "disk_timeout": ("a command that a disk did not answer in time", "commands that a disk did not answer in time"),
    "table_full": ("a full table", "reports of a full table"),
    "listen_overflow": ("a full accept queue", "full accept queues"),
    "tcp_memory": ("TCP out of memory", "reports that TCP is out of memory"),
    "cache_drop": ("a drop of the page cache", "drops of the page cache"),
    "unit_start_limit": ("a unit that is not started any more", "refusals to start a unit again"),
}
# Kinds that another sign reads beside a counter: where that was never read, as in a saved log, they are noted here.
_BESIDE = {
    "disk_timeout": "disk_requests_total",
    "table_full": "table_used",
    "listen_overflow": "net_segments_received_total",
    "tcp_memory": "net_segments_received_total",
    "cache_drop": "vmstat_drop_pagecache_total",
}
URGENT = 2  # level: critical, alert and emergency; at 3 (error) drivers complain at every boot of a healthy machine
_TRACE = ("Call Trace:", "Call trace:")  # of x86 and of arm64: the kernel only prints its stack for a reason
PART = 10.0  # seconds after a known line: an oops or a lockup is followed by hundreds of lines of its own
_SUBJECTS = (("gpu", "gpu"), ("nic", "nic"), ("device", "device"))
_CODES = (("code", "Xid"), ("sxid", "SXid"))  # of NVIDIA's cards, and of its switches
_PROCESS = ("split_lock", "segfault")  # faults of a program; others only name the one that ran then


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    found: dict[tuple[str, str], list[Line]] = {}
    kinds = [it for it in _KINDS if it not in _BESIDE or not timeline.looked(_BESIDE[it])]
    for line in lines_of(timeline, *kinds):
        found.setdefault((line.message.kind, _subject(line)), []).append(line)
    for (kind, subject), lines in found.items():
        for episode in episodes(lines, lambda line: line.reading.at, apart=EPISODE):
            yield _finding(kind, subject, episode)
    for new in episodes(_unknown(timeline), lambda reading: reading.at, apart=EPISODE):
        yield Finding(
            subject="node",
            span=Span(new[0].at, new[-1].at),
            says=f"has {_urgent(len(new))} of no known kind in the kernel's log: {harmless(new[0].text, most=120)}",
            evidence=tuple(new[:SHOWN]),
            harm=Harm(),
        )
    if deaf := unheard(timeline):
        yield deaf


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    return f"no fault in {len(timeline.series(LOG)):,} lines of the kernel's log", (timeline.looks(LOG).latest,)


def _unknown(timeline: Timeline) -> list[Reading]:
    """Urgent lines, and traces of the kernel's stack, that belong to nothing known: a fault whose words are new."""
    log, known = log_of(timeline), [line.reading.at for line in lines_of(timeline)]
    found: list[Reading] = []
    for place in sorted(log.texts):
        if log.values[place] > URGENT and not any(it in log.texts[place] for it in _TRACE):
            continue
        at = float(log.at[place])
        before = bisect_right(known, at)
        if not before or at - known[before - 1] > PART:
            found.append(log.reading(place))
    return found


def _urgent(many: int) -> str:
    return "an urgent line" if many == 1 else f"{many:,} urgent lines"


def _subject(line: Line) -> str:
    """The device, or the program that crashed; all crashes of programs of one name are one."""
    fields = line.message.fields
    if line.message.kind in _PROCESS:
        return f"program:{fields['process']}"
    if line.message.kind == "oops":
        return "node"
    if "cpu" in fields and line.message.kind in ("machine_check", "overheated"):
        return f"cpu:{int(fields['cpu'][:9])}"
    return next((f"{kind}:{fields[name]}" for name, kind in _SUBJECTS if fields.get(name)), "node")


def _finding(kind: str, subject: str, lines: list[Line]) -> Finding:
    one, several = _KINDS[kind]
    count = _count(kind, lines)
    details = list(dict.fromkeys(filter(None, (_detail(kind, line.message.fields) for line in lines))))
    more = f" and {len(details) - NAMED} more" if len(details) > NAMED else ""
    named = f": {', '.join(details[:NAMED])}{more}" if details else ""
    return Finding(
        subject=subject,
        span=Span(lines[0].reading.at, lines[-1].reading.at),
        says=f"has {one if count == 1 else f'{count:,} {several}'} in the kernel's log{named}",
        evidence=tuple(line.reading for line in lines[:SHOWN]),
        harm=Harm(),
    )


def _count(kind: str, lines: list[Line]) -> int:
    """How many there were: an oops is several lines, of which one has its number; a memory error has a count."""
    if kind == "oops":
        return max(len({line.message.fields["number"] for line in lines if "number" in line.message.fields}), 1)
    return sum(int(line.message.fields.get("times", "1")[:9]) if kind == "memory_error" else 1 for line in lines)


def _detail(kind: str, fields: Mapping[str, str]) -> str:
    """What a line says besides its kind."""
    if kind == "gpu_fault":
        by = f", in {fields['process']}[{fields.get('pid', '?')}]" if "process" in fields else ""
        code = next((f"{word} {fields[name]}" for name, word in _CODES if name in fields), "")
        what = f" ({fields['what']})" if code and "what" in fields else fields.get("what", "")
        return harmless(f"{code}{by}{what}", most=120)
    if kind in _PROCESS:
        return f"pid {fields['pid']}"
    if kind == "page_allocation_failure":
        return harmless(f"order {fields['order']} in {fields['process']}")
    if kind == "netdev_stuck":
        return harmless(f"{fields['device']}, {fields['references']} references")
    names = ("where", "why", "what", "result", "then", "function", "path", "unit", "table", "port")
    return harmless(", ".join(fields[name] for name in names if name in fields), most=120)
