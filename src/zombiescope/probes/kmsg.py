"""The kernel log as events: each line with its level and the time at which it was written.

Overhead: one read while nothing is new, 6 µs; about 10 µs a line, and 150 µs every ten seconds to compare clocks if
    there are lines. The first sample reads the whole log, 1.2 µs a record.
Kernel: /dev/kmsg, see kernel/kmsg.py for its clock; in a container syslog(2), each five seconds, kernel/called_log.py.
    With kernel.dmesg_restrict=1 it needs CAP_SYSLOG. A copy of the log in a recorded root has the same format; its
    times are counted from /proc/uptime, on the assumption that both
    clocks ran at the same rate. A run of the lab is marked (lab_run): only there the lines that the lab injects count.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.witness import Witness
from zombiescope.kernel.called_log import CalledLog
from zombiescope.kernel.kmsg import SOURCE, KernelLog, Line, parse_all
from zombiescope.places.own_folders import LAB_ENVIRONMENT

EVERY = 2.0
WITNESS = Witness.LOGS
GIVES = ("kernel_log", "kernel_log_lost_total", "lab_run")
EVENTS = GIVES[:1]  # each line is an event, not a value that holds
PAST = 600.0  # seconds before the first sample that are reported too: what happened before somebody started this tool
MOST = 2_000  # lines in one sample: a driver that dumps its counters writes a thousand
LONGEST = 1_000  # characters kept of a line; printk itself cuts at about that many
_UPTIME = "/proc/uptime"


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Keeps the log open, so that each sample gives the lines since the last one."""
    with closing(_opened(host)) as log:
        first = True

        def look() -> Iterator[Reading | Blind]:
            nonlocal first
            before = log.lost
            found = log.past(PAST, MOST) if first else log.read(MOST)
            first = False
            yield from _told(found, log.lost, log.lost - before, host.now(), log.source)

        yield look


def _opened(host: Host) -> KernelLog:
    """In a container the device is forbidden, whatever rights it has: there the call is left."""
    try:
        return KernelLog(host.real(SOURCE))
    except Unreadable:
        if not host.live:
            raise
        with suppress(Unreadable):
            return CalledLog()
        raise


def read(host: Host) -> Iterator[Reading | Blind]:
    """One sample: what was logged in the last minutes."""
    if host.live:
        with watch(host) as look:
            yield from look()
        return
    found = list(parse_all(host.read(SOURCE)))
    now = host.now()
    booted = now - _uptime(host.read(_UPTIME))
    # No line can be later than the copy; one that seems so was written by a clock that ran fast.
    dated = [Line(it.level, it.number, min(booted + it.at, now), it.text) for it in found]
    recent = [it for it in dated if it.at >= now - PAST]
    unkept = max(len(recent) - MOST, 0)
    yield from _told(recent[unkept:], unkept, unkept, now)


def _told(
    found: Sequence[Line], lost: int, just_lost: int, now: float, source: str = SOURCE
) -> Iterator[Reading | Blind]:
    for line in found:
        text = line.text[:LONGEST]
        yield Reading(what=GIVES[0], subject="node", value=line.level, at=line.at, source=source, text=text)
    yield Reading(what=GIVES[1], subject="node", value=lost, at=now, source=source)
    if os.environ.get(LAB_ENVIRONMENT):
        yield Reading(what=GIVES[2], subject="node", value=1, at=now, source=f"$ printenv {LAB_ENVIRONMENT}")
    if just_lost:
        why = f"{just_lost:,} lines were lost: they came too fast; {len(found):,} were read"
        yield Blind(what=GIVES[0], source=source, why=why, subject="node")


# 350735.47 234388.90
def _uptime(text: str) -> float:
    try:
        seconds = float(text.split()[0])
        if not math.isfinite(seconds):
            raise ValueError
        return seconds
    except (ValueError, IndexError):
        raise Unparsable(_UPTIME, 1, text) from None
