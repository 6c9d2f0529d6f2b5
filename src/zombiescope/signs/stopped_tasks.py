"""Processes are stopped by a signal (SIGSTOP) and go on only when somebody continues them.

Why it hurts: a stopped process keeps its connections, locks and memory, and answers nothing. What waits for it hangs,
    and it does not show as blocked or busy.
False alarms: a shell's job control (Ctrl-Z), a debugger, strace. Nobody can tell from outside whether it was meant,
    so this is noted, with names; a law must tie it to somebody who waits.
References: Documentation/filesystems/proc.rst 1.2, state T; signal(7).
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Reading, harmless, lasting
from zombiescope.core.harm import Harm
from zombiescope.core.timeline import Timeline

# Scale: a state of one process: the same on any node.
NEEDS = ("stopped_processes",)
LONG = 8.0  # seconds: strace and runtimes stop a process for moments


def find(timeline: Timeline) -> Iterator[Finding]:
    for spell in timeline.series(NEEDS[0]).runs(above=1.0, lasting=LONG):
        many = spell.latest.value
        yield Finding(
            subject="node",
            span=spell.span,
            says=(
                f"has {many:,.0f} stopped process{'es' if many != 1 else ''} for {lasting(spell.span.seconds)}: "
                f"{harmless(spell.latest.text)}"
            ),
            evidence=(spell.first, spell.latest),
            harm=Harm(),
        )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    now = timeline.latest(NEEDS[0])
    return f"{now[0].value:,.0f} processes are stopped" if now else "", tuple(now)
