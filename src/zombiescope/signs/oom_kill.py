"""The kernel OOM-killed a process, because the node ran out of memory or a cgroup reached its limit.

Why it hurts: the process is gone without a message of its own, and what depended on it fails elsewhere: a worker is
    "lost", a connection is reset. Before the kill there was reclaim, which made everything else slow.
False alarms: a batch job that is expected to hit its limit and to be run again; a memory test. A kill by a program in
    user space (systemd-oomd, earlyoom) is not the kernel's and is not seen here.
References: mm/oom_kill.c; Documentation/admin-guide/cgroup-v2.rst, memory.events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zombiescope.core import Blind, Finding, Reading, Span, amount
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.episodes import episodes
from zombiescope.derived.kernel_log import LOG, Line, lines_of, unheard

_KILLS = "vmstat_oom_kill_total"
# Scale: events: the same on any node.
NEEDS = ((LOG, _KILLS),)
TOGETHER = 10.0  # seconds: a kill follows its reason at once, or after a slow console; kills this close are one event
GROUP = 1.0  # seconds: memory.oom.group kills all of a cgroup at once, and gives the reason only for the first
SHOWN = 8  # lines of one event, as evidence
NAMED = 3  # processes of one event that are named; memory.oom.group kills them by the hundred


@dataclass(slots=True)
class _Kill:
    """One process: why it was chosen, where the kernel logged that, and that it was killed."""

    lines: list[Line]
    subject: str
    task: str  # its cgroup
    process: str
    bytes: int

    @property
    def at(self) -> float:
        return self.lines[-1].reading.at


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    kills = list(_kills(timeline))
    for subject in dict.fromkeys(kill.subject for kill in kills):
        own = [kill for kill in kills if kill.subject == subject]
        for group in episodes(own, lambda kill: kill.at, apart=TOGETHER):
            yield _finding(subject, group)
    yield from _counted(timeline, [kill.at for kill in kills])
    if not timeline.looked(_KILLS, 2) and (deaf := unheard(timeline)):
        yield deaf


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    counted = timeline.latest(_KILLS)
    looks = tuple(timeline.looks(what).latest for what in (LOG, _KILLS) if len(timeline.looks(what)))
    since = f"{counted[0].value:,.0f} since boot, none in this recording" if counted else "the log reports none"
    return since, tuple(counted) or looks


def _kills(timeline: Timeline) -> Iterator[_Kill]:
    reason: Line | None = None
    answered = True
    for line in lines_of(timeline, "oom_context", "oom_kill"):
        if line.message.kind == "oom_context":
            if reason is not None and not answered:  # its kill was not logged
                yield _kill([reason], reason)
            reason, answered = line, False
        elif reason is not None and _belongs(reason, line):
            yield _kill([line] if answered else [reason, line], reason)
            answered = True
        else:
            yield _kill([line], None)
    if reason is not None and not answered:
        yield _kill([reason], reason)


def _belongs(reason: Line, kill: Line) -> bool:
    """Whether a kill is for that reason. Reasons are rate-limited, so the last one may be another's."""
    passed, why = kill.reading.at - reason.reading.at, reason.message.fields
    if why.get("pid") in (None, kill.message.fields["pid"]):  # kernels before 4.19 do not name the task here
        return passed <= TOGETHER
    group = why.get("constraint") == "MEMCG" and kill.message.fields.get("why", "").startswith("Memory cgroup")
    return group and passed <= GROUP


def _kill(lines: list[Line], reason: Line | None) -> _Kill:
    why = reason.message.fields if reason is not None else {}
    what = lines[-1].message.fields
    within = why.get("oom_memcg", "") if why.get("constraint", "MEMCG") == "MEMCG" else ""
    resident = sum(int(what.get(name, "0")[:15]) for name in ("anon_kb", "file_kb")) * 1024
    process = f"{what['process']}[{what['pid']}]" if "process" in what and "pid" in what else "a process"
    subject = f"cgroup:{within}" if within else "node"
    return _Kill(lines, subject, why.get("task_memcg", ""), process, resident)


def _finding(subject: str, kills: list[_Kill]) -> Finding:
    named = [f"{kill.process} ({amount(kill.bytes)})" if kill.bytes else kill.process for kill in kills[:NAMED]]
    more = f" and {len(kills) - NAMED:,} more" if len(kills) > NAMED else ""
    limited = all(kill.lines[-1].message.fields.get("why", "").startswith("Memory cgroup") for kill in kills)
    limit = " at its memory limit" if subject != "node" else " at a cgroup's memory limit" if limited else ""
    homes = sorted({kill.task for kill in kills if kill.task and f"cgroup:{kill.task}" != subject})
    where = f", in {', '.join(homes[:NAMED])}" if homes else ""
    lines = [line for kill in kills for line in kill.lines]
    span = Span(lines[0].reading.at, lines[-1].reading.at)
    return Finding(
        subject=subject,
        span=span,
        says=f"had {_processes(len(kills))} OOM-killed{limit}: {', '.join(named)}{more}{where}",
        evidence=tuple(line.reading for line in lines[:SHOWN]),
        harm=_harm(subject, len(kills), span),
    )


def _harm(subject: str, kills: float, span: Span) -> Harm:
    return Harm(parts=(Part(figure="broken", kind="kills", who=subject, amount=kills, span=span),))


def _counted(timeline: Timeline, told_at: list[float]) -> Iterator[Finding]:
    """Kills that the kernel counted and that are not in the log."""
    counter = timeline.series(_KILLS)
    for run in timeline.rate(_KILLS).runs(above=1e-9, lasting=0.0):
        if any(run.span.start - TOGETHER <= at <= run.span.end + TOGETHER for at in told_at):
            continue
        between = counter.between(run.span)
        killed = between.latest.value - between.first.value
        yield Finding(
            subject="node",
            span=run.span,
            says=f"had {_processes(killed)} OOM-killed by the kernel's count; the log does not say which",
            evidence=(between.first, between.latest),
            harm=_harm("node", killed, run.span),
        )


def _processes(count: float) -> str:
    return f"{count:,.0f} process{'es' if count != 1 else ''}"
