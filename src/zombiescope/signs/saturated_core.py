"""One core wholly busy in the kernel for a second or more.

Why it hurts: softirqs, NAPI polls and threads pinned to that core cannot run anywhere else, and wait. A network
    driver whose queue is served there gives up after five seconds. Averages hide it: one core of 96 is 1 %.
False alarms: a core given to one kernel-heavy task on purpose (isolcpus, a storage or packet poller). A core busy
    with a program's own work (user mode) is never called saturated: a softirq that is due interrupts a program.
References: Documentation/filesystems/proc.rst, 1.7 (modes); `mpstat -P ALL 1` shows the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Blind, Finding, Reading, Span, lasting
from zombiescope.core.timeline import Floats, Series, Timeline

_KERNEL = ("system", "irq", "softirq")
_USER = ("user", "nice")  # guest time is counted in these already
_IDLE = ("idle", "iowait")
SYMPTOM = True
NEEDS = tuple(f"cpu_{mode}_seconds_total" for mode in (*_KERNEL, *_USER, *_IDLE))
FULL = 0.9  # of the time the core had: the tick that counts is coarse, and a rare interrupt elsewhere is no relief
SECONDS = 1.0  # shorter spells are ordinary bursts; a queue's watchdog gives up after 5
WINDOW = 0.25  # seconds: times come in ticks of 10 ms, so that a share is exact to 4 %
BRIDGE = 0.3  # seconds: one coarse look below FULL does not make two spells of one
STOLEN = 0.5  # of a look: a core that the hypervisor took away for longer tells nothing (see stolen_cpu instead)
TOLD = 0.1  # of a look: time is counted by ticks, and where interrupts are off most of them are missed, but not all


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    cores = _cores(timeline)
    for cpu, shares in cores.items():
        for spell in _kernel(shares).runs(above=FULL, lasting=SECONDS, bridging=BRIDGE):
            by_mode = {mode: share.between(spell.span).mean() for mode, share in shares.items()}
            system, softirq = by_mode["system"], by_mode["softirq"] + by_mode["irq"]
            drowning = "softirq" if softirq > system else "system"
            hidden = _average(cores).between(spell.span)
            who, stack = _who(timeline, cpu, spell.span)
            yield Finding(
                subject=cpu,
                span=spell.span,
                says=(
                    f"drowning in {drowning} time for {lasting(spell.span.seconds)}: {system:.0%} system, "
                    f"{softirq:.0%} softirq and irq, {by_mode['user'] + by_mode['nice']:.0%} user"
                    f"{who}; {_hiding(hidden.mean())}"
                ),
                evidence=(
                    spell.figure("cpu_kernel_ratio", spell.mean()),
                    *(spell.figure(f"cpu_{mode}_ratio", by_mode[mode]) for mode in _KERNEL),
                    hidden.figure("cpu_busy_ratio", hidden.mean()),
                    *stack,
                ),
            )
    if all(np.isnan(_kernel(shares).values).all() for shares in cores.values()):
        yield Blind(what=NEEDS[0], source="/proc/stat", why="no core has all the modes that are needed")


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The core that was busiest in the kernel, and what it did besides, where there is nothing to report."""
    cores = _cores(timeline)
    if not cores:
        return "", ()
    cpu, shares = max(cores.items(), key=lambda core: float(np.nan_to_num(_kernel(core[1]).mean())))
    busiest, hidden = _kernel(shares), _average(cores)
    user = shares["user"].mean() + shares["nice"].mean()
    return (
        f"{cpu} was busiest in the kernel: {busiest.mean():.0%} (user {user:.0%}); node's average {hidden.mean():.0%}",
        (busiest.figure("cpu_kernel_ratio", busiest.mean()), hidden.figure("cpu_busy_ratio", hidden.mean())),
    )


def _cores(timeline: Timeline) -> dict[str, dict[str, Series]]:
    return {cpu: _shares(timeline, cpu) for cpu in timeline.subjects(NEEDS[0], "cpu")}


def _shares(timeline: Timeline, cpu: str) -> dict[str, Series]:
    """What part of the time that the core really had went into each mode, look by look."""
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
    """Whom the core was running most of the time, and in which of the kernel's functions, if stacks were sampled."""
    samples = timeline.samples(span, cpu=int(cpu.removeprefix("cpu:")))
    if not len(samples):
        return "", ()
    name, pid, own = samples.processes()[0]
    words = f", {own.seconds / samples.seconds:.0%} of it {name}[{pid}] in {own.hottest()[-1]}"
    return words, (own.reading(f"process:{name}[{pid}]"),)


def _hiding(busy: float) -> str:
    return f"the node's average of {busy:.0%} busy hides it" if busy < FULL else f"the whole node is {busy:.0%} busy"
