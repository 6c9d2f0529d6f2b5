"""One core is almost entirely busy in the kernel for a second or more.

Why it hurts: softirqs, NAPI polls and threads pinned to that core cannot run anywhere else, so they wait. A network
    driver whose queue is served there gives up after five seconds. Averages hide it: one core of 96 is 1 %.
False alarms: a core given to one kernel-heavy task on purpose (isolcpus, a storage or packet poller). A core busy
    with a program's own work (user mode) is never called saturated: a softirq that is due interrupts a program.
References: Documentation/filesystems/proc.rst, 1.7 (modes); `mpstat -P ALL 1` shows the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from zombiescope.core import Blind, Finding, Reading, Span, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.own_work import is_ours
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.kernel_log import lines_of
from zombiescope.derived.sampled_processes import processes
from zombiescope.derived.waits import waited_for_core

_KERNEL = ("system", "irq", "softirq")
_USER = ("user", "nice")  # guest time is counted in these already
_IDLE = ("idle", "iowait")
SYMPTOM = True
# Scale: shares of one core: the same on any node.
NEEDS = tuple(f"cpu_{mode}_seconds_total" for mode in (*_KERNEL, *_USER, *_IDLE))
FULL = 0.9  # of the time the core had: the tick that counts is coarse, and a rare interrupt elsewhere is no relief
SECONDS = 1.0  # shorter periods are ordinary bursts; a queue's watchdog gives up after 5
WINDOW = 0.25  # seconds: times come in ticks of 10 ms, so a share is exact to 4 %
BRIDGE = 0.3  # seconds: one coarse sample below FULL does not split a period in two
STOLEN = 0.5  # of a sample: with more CPU steal than that the modes say nothing (see stolen_cpu instead)
TOLD = 0.1  # of a sample: time is counted by ticks, and where interrupts are off most of them are missed, but not all


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    seen = _seen(timeline)
    for cpu, spell, by_mode in seen.spells:
        hidden = seen.average.between(spell.span)
        who, stack = _who(timeline, cpu, spell.span)
        yield Finding(
            subject=cpu,
            span=spell.span,
            says=(
                f"was {percent(spell.mean())} busy in the kernel for {lasting(spell.span.seconds)} "
                f"({percent(by_mode['system'])} system, "
                f"{percent(by_mode['softirq'] + by_mode['irq'])} softirq and irq, "
                f"{percent(by_mode['user'] + by_mode['nice'])} user){who}; {_hiding(hidden.mean())}"
            ),
            evidence=(
                spell.figure("cpu_kernel_ratio"),
                *(spell.figure(f"cpu_{mode}_ratio", by_mode[mode]) for mode in _KERNEL),
                hidden.figure("cpu_busy_ratio"),
                *stack,
            ),
            culprit=_ours(timeline, spell.span, stack),
            harm=_harm(timeline, cpu, spell, stack),
        )
    if np.isnan(seen.average.values).all():
        yield Blind(what=NEEDS[0], source="/proc/stat", why="no core reports all the CPU modes needed")


def _ours(timeline: Timeline, span: Span, stack: tuple[Reading, ...]) -> str:
    """Who ran there most, if that is us: a core that we fill accuses nobody else."""
    return stack[0].subject if stack and is_ours(timeline, stack[0].subject, span) else ""


def _harm(timeline: Timeline, cpu: str, spell: Series, stack: tuple[Reading, ...]) -> Harm:
    """What the core did in the kernel, and who else waited for this core."""
    runs = stack[0].subject if stack else ""
    waited = waited_for_core(timeline, int(cpu.removeprefix("cpu:")), spell.span, but=runs)
    return Harm(parts=(Part(figure="burnt", who=cpu, amount=spell.mean(), span=spell.span, contended=waited),))


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The core that was busiest in the kernel, and its user time, where there is nothing to report."""
    seen = _seen(timeline)
    if seen.busiest is None:
        return "", ()
    kernel, all_busy = seen.busiest, seen.average.mean()
    return (
        f"{kernel.subject.replace(':', ' ')} was busiest in the kernel: {percent(kernel.value)} "
        f"(user {percent(seen.user)}); all cores together were {percent(all_busy)} busy",
        (kernel, seen.average.figure("cpu_busy_ratio", all_busy)),
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one pass over all cores came to; the shares of 192 cores over hours are not kept."""

    spells: list[tuple[str, Series, dict[str, float]]]  # core, its kernel share while it was saturated, means by mode
    average: Series  # how busy the node looks to a dashboard: all cores together
    busiest: Reading | None = None  # in the kernel, over all of the recording
    user: float = 0.0  # share of the busiest one


def _seen(timeline: Timeline) -> _Seen:
    return timeline.once(_looked, FULL, SECONDS, BRIDGE, WINDOW, STOLEN, TOLD)


def _looked(timeline: Timeline, *_: float) -> _Seen:
    spells: list[tuple[str, Series, dict[str, float]]] = []
    idle, known, last = np.zeros(1), np.zeros(1), timeline.rate(NEEDS[0])
    busiest, user = None, 0.0
    for cpu in timeline.subjects(NEEDS[0], "cpu"):
        shares = _shares(timeline, cpu)
        kernel, last = _together(shares, _KERNEL), _together(shares, _IDLE)
        for spell in kernel.runs(above=FULL, lasting=SECONDS, bridging=BRIDGE):
            spells.append((cpu, spell, {mode: share.between(spell.span).mean() for mode, share in shares.items()}))
        unknown = np.isnan(last.values)
        idle = idle + np.where(unknown, 0.0, last.values)
        known = known + ~unknown
        mean = float(np.nan_to_num(kernel.mean()))
        if busiest is None or mean > busiest.value:
            busiest, user = kernel.figure("cpu_kernel_ratio", mean), _together(shares, _USER).mean()
    busy = 1 - idle / np.where(known > 0, known, np.nan)
    return _Seen(spells, replace(last, subject="node", values=busy[: len(last)]), busiest, user)


def _shares(timeline: Timeline, cpu: str) -> dict[str, Series]:
    """What part of the time that the core really had went into each mode, sample by sample."""
    window = min(WINDOW, SECONDS / 4)
    rates = {mode: timeline.rate(f"cpu_{mode}_seconds_total", cpu, over=window) for mode in (*_KERNEL, *_USER, *_IDLE)}
    had = _together(rates, tuple(rates)).values
    stolen = timeline.rate("cpu_steal_seconds_total", cpu, over=window).values
    known = had >= TOLD
    if len(stolen) == len(had):
        known &= ~(stolen > STOLEN)
    had = np.where(known, had, np.nan)
    return {mode: replace(rate, values=rate.values / had) for mode, rate in rates.items()}


def _together(by_mode: dict[str, Series], modes: tuple[str, ...]) -> Series:
    first, *others = (by_mode[mode] for mode in modes)
    total = first.values.copy()
    for it in others:
        total += it.values
    return replace(first, values=total)


def _who(timeline: Timeline, cpu: str, span: Span) -> tuple[str, tuple[Reading, ...]]:
    """What the core ran most of the time, and in which kernel function, if stacks were sampled."""
    samples = timeline.samples(span, cpu=int(cpu.removeprefix("cpu:")))
    if not len(samples):
        return "", ()
    name, pid, own = processes(samples)[0]
    words = f", {percent(own.seconds / samples.seconds)} of it {name}[{pid}] in {own.hottest()[-1]}"
    hogs = _hogs(timeline, own.hottest()) if name.startswith("kworker/") else ()
    return words + " (which the kernel logged as a CPU hog)" * bool(hogs), (
        own.reading(f"process:{name}[{pid}]"),
        *hogs,
    )


def _hogs(timeline: Timeline, stack: tuple[str, ...]) -> tuple[Reading, ...]:
    """The kernel's own last line about a work item of this stack that kept a core for too long."""
    lines = [it.reading for it in lines_of(timeline, "workqueue_hog") if it.message.fields["function"] in stack]
    return tuple(lines[-1:])


def _hiding(busy: float) -> str:
    if busy < FULL:
        return f"the node's average of {percent(busy)} busy hides it"
    return f"the whole node was {percent(busy)} busy"
