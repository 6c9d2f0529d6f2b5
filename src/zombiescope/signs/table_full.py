"""A table of the kernel is full, so it refuses what programs ask for: threads, files, watches, keys, neighbours.

Why it hurts: each refusal is an error in some program that seldom says which table it was: "resource temporarily
    unavailable", "no space left on device" (inotify watches), "disk quota exceeded" (keys), packets that are not
    sent. Pods fail to start, kubelet restarts, and a node with free CPU and memory takes no more work.
False alarms: full and steady is no fault: neighbours are held at their limit on purpose. So what counts is refusals,
    by the kernel's own counters and log. Where the kernel counts none (threads, keys, inotify), a table at its limit
    is accused, since the next request is refused; one that is nearly full and does not grow is only noted.
References: Documentation/admin-guide/sysctl; kernel/cgroup/pids.c; net/core/neighbour.c; keyrings(7); inotify(7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from zombiescope.cgroups.owners import whose
from zombiescope.core import Blind, Finding, Reading, Span, harmless, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.growth import reaches
from zombiescope.derived.kernel_log import Line, lines_of

# Scale: shares of a limit; the kernel or the administrator sets limits by memory, cores and pods.
USED, LIMIT, REFUSED = "table_used", "table_limit", "table_refused_total"
FORKS, THREADS, MOST_THREADS = "cgroup_forks_refused_total", "cgroup_threads", "cgroup_threads_limit"
INOTIFY, MOST_INOTIFY = "inotify_instances", "inotify_instances_limit"
UNREAD = "inotify_processes_unread"
INODES, MOST_INODES = "inodes_used", "inodes_limit"
NEEDS = (USED,)
FULL = 0.95  # of the limit: at the pace of a busy node the rest is gone in minutes
GROWN = 20  # more over a recording: fewer come and go
SHOWN = 4  # lines of the log, as evidence
_LOGGED = {  # the table's name in the log, and here
    "file-max": "table:file handles",
    "arp_cache": "table:IPv4 neighbours",
    "ndisc_cache": "table:IPv6 neighbours",
    "Neighbour table": "table:IPv4 neighbours",
    "Route cache": "table:IPv6 routes",
}


@dataclass(frozen=True, slots=True)
class _Table:
    """A table over the recording; the refusals are those since it began."""

    subject: str
    called: str  # of what it is a table: "threads", "inotify instances of user 0"
    used: Series
    limit: float
    refused: float | None  # None: the kernel does not count them
    evidence: tuple[Reading, ...]
    lines: tuple[Line, ...] = ()


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    for table in _tables(timeline):
        share = float(np.nanmax(table.used.values)) / table.limit if table.limit and len(table.used) else 0.0
        if table.refused or table.lines or (share >= FULL and table.limit):
            yield _finding(timeline, table, share)
    blind = [timeline.looks(what) for what in (INOTIFY, FORKS)]
    for looks in blind:
        if len(looks) and looks.latest.text:
            yield Blind(what=looks.subject, source=looks.latest.source, why=looks.latest.text)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    known = [it for it in _tables(timeline) if it.limit and len(it.used)]
    if not known:
        return "no table has a limit", tuple(timeline.latest(USED)[:1])
    fullest = max(known, key=lambda it: it.used.latest.value / it.limit)
    share = percent(fullest.used.latest.value / fullest.limit, 1)
    unread = [it for it in timeline.latest(UNREAD) if it.value]
    but = f"; inotify instances without those of {harmless(unread[0].text)}" if unread else ""
    words = f"{len(known)} tables; the fullest is that of {harmless(fullest.called)}: {share}{but}"
    return words, (fullest.used.latest, *unread)


def _tables(timeline: Timeline) -> Iterator[_Table]:
    logged: dict[str, list[Line]] = {}
    for line in lines_of(timeline, "table_full"):
        fields = line.message.fields
        name = f"cgroup:{fields['cgroup']}" if "cgroup" in fields else _LOGGED.get(fields["table"], "")
        logged.setdefault(name, []).append(line)
    for subject in timeline.subjects(USED):
        used, limit = timeline.series(USED, subject), timeline.series(LIMIT, subject)
        known = limit.latest.value if len(limit) else 0.0
        refused, seen = _risen(timeline, REFUSED, subject)
        counted = refused if len(timeline.series(REFUSED, subject)) else None
        told = tuple(logged.pop(subject, ()))
        name = subject.removeprefix("table:")
        figures = tuple(it.latest for it in (used, limit) if len(it))
        yield _Table(subject, name, used, known, counted, (*figures, *seen), told)
    for subject in dict.fromkeys((*timeline.subjects(FORKS), *(it for it in logged if it.startswith("cgroup:")))):
        refused, seen = _risen(timeline, FORKS, subject)
        now = tuple(s.latest for what in (THREADS, MOST_THREADS) if len(s := timeline.series(what, subject)))
        own = whose(timeline, "", subject) if refused else ""
        limit = timeline.series(MOST_THREADS, subject)
        most = limit.latest.value if len(limit) else 0.0
        called = f"threads of {own}" if own else "threads"
        told = tuple(logged.get(subject, ()))
        yield _Table(subject, called, timeline.series(THREADS, subject), most, refused, (*now, *seen), told)
    limits = timeline.series(MOST_INOTIFY)
    for subject in timeline.subjects(INOTIFY) if len(limits) else ():
        used = timeline.series(INOTIFY, subject)
        called = f"inotify instances of {subject.replace(':', ' ')}"
        yield _Table(subject, called, used, limits.latest.value, None, (used.latest, limits.latest))
    for subject in timeline.subjects(INODES, "mount"):
        used, limit = timeline.series(INODES, subject), timeline.series(MOST_INODES, subject)
        if len(limit):
            called = f"inodes of {subject.removeprefix('mount:')}"
            yield _Table(subject, called, used, limit.latest.value, None, (used.latest, limit.latest))


def _risen(timeline: Timeline, what: str, subject: str) -> tuple[float, tuple[Reading, ...]]:
    counter = timeline.series(what, subject)
    if len(counter) < 2 or counter.latest.value <= counter.first.value:
        return 0.0, ()
    return counter.latest.value - counter.first.value, (counter.first, counter.latest)


def _finding(timeline: Timeline, table: _Table, share: float) -> Finding:
    said = []
    if table.limit and len(table.used):
        most = float(np.nanmax(table.used.values))
        said.append(f"used {most:,.0f} of at most {table.limit:,.0f} {harmless(table.called)}")
    if table.refused:
        said.append(f"{table.refused:,.0f} requests were refused")
    if table.lines:
        times = f"{len(table.lines)} times" if len(table.lines) > 1 else "once"
        said.append(f"was full {times} by the kernel's log")
    users = table.used.latest.text if table.subject.startswith("user:") else ""
    said += [f"most of them by {harmless(users)}"] if users else []
    evidence = (*table.evidence, *(line.reading for line in table.lines[:SHOWN]))
    seen = [it.at for it in evidence if it.what != LIMIT]
    span = Span(min(seen, default=timeline.span.start), max((*seen, timeline.span.end if table.refused else 0.0)))
    if share >= FULL:
        full = replace(table.used, values=table.used.values / table.limit).runs(above=FULL, lasting=0.0)
        span = Span(full[0].span.start, full[-1].span.end)
    return Finding(
        subject=table.subject,
        span=span,
        says="; ".join(said) or f"refused {harmless(table.called)}",
        evidence=evidence,
        harm=_harm(timeline, table, span),
    )


def _harm(timeline: Timeline, table: _Table, span: Span) -> Harm:
    """What was refused, by count or by the log; else whether the next request is; else when it will be."""
    refused = max(table.refused or 0.0, len(table.lines))
    if refused:
        return Harm(parts=(Part(figure="broken", kind="refused", who=table.subject, amount=refused, span=span),))
    if table.refused is None and table.used.latest.value >= table.limit:
        return Harm(soon_seconds=0.0, limit="it is full: the next request is refused", evidence=(table.used.latest,))
    return reaches(timeline, table.used, table.limit, least=GROWN, called="it is full").added_to(Harm())
