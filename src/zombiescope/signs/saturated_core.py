"""One core is almost entirely busy in the kernel for a second or more.

Why it hurts: softirqs, NAPI polls and threads pinned to that core cannot run anywhere else, so they wait. A network
    driver whose queue is served there gives up after five seconds. Averages hide it: one core of 96 is 1 %.
False alarms: a core given to one kernel-heavy task on purpose (isolcpus, a storage or packet poller). A core busy
    with a program's own work (user mode) is never called saturated: a softirq that is due interrupts a program.
References: Documentation/filesystems/proc.rst, 1.7 (modes); `mpstat -P ALL 1` shows the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Blind, Finding, Reading, Span, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Floats, Series, Timeline
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
    cores = _cores(timeline)
    average = _average(cores) if cores else None
    for cpu, shares in cores.items():
        for spell in _kernel(shares).runs(above=FULL, lasting=SECONDS, bridging=BRIDGE):
            by_mode = {mode: share.between(spell.span).mean() for mode, share in shares.items()}
            system, softirq = by_mode["system"], by_mode["softirq"] + by_mode["irq"]

            assert average is not None
            hidden = average.between(spell.span)
            who, stack = _who(timeline, cpu, spell.span)
            yield Finding(
                subject=cpu,
                span=spell.span,
                says=(
                    f"was {percent(spell.mean())} busy in the kernel for {lasting(spell.span.seconds)} "
                    f"({percent(system)} system, {percent(softirq)} softirq and irq, "
                    f"{percent(by_mode['user'] + by_mode['nice'])} user){who}; {_hiding(hidden.mean())}"
                ),
                evidence=(
                    spell.figure("cpu_kernel_ratio", spell.mean()),
                    *(spell.figure(f"cpu_{mode}_ratio", by_mode[mode]) for mode in _KERNEL),
                    hidden.figure("cpu_busy_ratio", hidden.mean()),
                    *stack,
                ),
                harm=_harm(timeline, cpu, spell, stack),
            )
    if all(np.isnan(_kernel(shares).values).all() for shares in cores.values()):
        yield Blind(what=NEEDS[0], source="/proc/stat", why="no core reports all the CPU modes needed")


def _harm(timeline: Timeline, cpu: str, spell: Series, stack: tuple[Reading, ...]) -> Harm:
    """What the core did in the kernel, and who else waited for this core."""
    runs = stack[0].subject if stack else ""
    waited = waited_for_core(timeline, int(cpu.removeprefix("cpu:")), spell.span, but=runs)
    return Harm(parts=(Part(figure="burnt", who=cpu, amount=spell.mean(), span=spell.span, contended=waited),))


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The core that was busiest in the kernel, and its user time, where there is nothing to report."""
    cores = _cores(timeline)
    if not cores:
        return "", ()
    cpu, shares = max(cores.items(), key=lambda core: float(np.nan_to_num(_kernel(core[1]).mean())))
    busiest, hidden = _kernel(shares), _average(cores)
    user = shares["user"].mean() + shares["nice"].mean()
    return (
        f"{cpu.replace(':', ' ')} was busiest in the kernel: {percent(busiest.mean())} (user {percent(user)}); "
        f"all cores together were {percent(hidden.mean())} busy",
        (busiest.figure("cpu_kernel_ratio", busiest.mean()), hidden.figure("cpu_busy_ratio", hidden.mean())),
    )


def _cores(timeline: Timeline) -> dict[str, dict[str, Series]]:
    return {cpu: _shares(timeline, cpu) for cpu in timeline.subjects(NEEDS[0], "cpu")}


def _shares(timeline: Timeline, cpu: str) -> dict[str, Series]:
    """What part of the time that the core really had went into each mode, sample by sample."""
    window = min(WINDOW, SECONDS / 4)
    rates = {mode: timeline.rate(f"cpu_{mode}_seconds_total", cpu, over=window) for mode in (*_KERNEL, *_USER, *_IDLE)}
    had: Floats = np.sum([rate.values for rate in rates.values()], axis=0)
    stolen = timeline.rate("cpu_steal_seconds_total", cpu, over=window).values
    taken = stolen > STOLEN if len(stolen) == len(had) else np.zeros(len(had), bool)
    had = np.where((had >= TOLD) & ~taken, had, np.nan)
    return {mode: replace(rate, values=rate.values / had) for mode, rate in rates.items()}


def _kernel(shares: dict[str, Series]) -> Series:
    return replace(shares["system"], values=np.sum([shares[mode].values for mode in _KERNEL], axis=0))


def _average(cores: dict[str, dict[str, Series]]) -> Series:
    """How busy the node looks to a dashboard: all cores together."""
    idle = [shares["idle"].values + shares["iowait"].values for shares in cores.values()]
    known = np.count_nonzero(~np.isnan(idle), axis=0)
    busy = 1 - np.nansum(idle, axis=0) / np.where(known, known, np.nan)
    return replace(next(iter(cores.values()))["idle"], subject="node", values=busy)


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
