"""The kernel logs so much to a slow serial console that printing it keeps a core busy with waiting.

Why it hurts: a serial line takes 11 KB a second at 115,200 bits, 1 KB at 9,600. Whoever logs waits for the line, often
    with interrupts off: cores lock up, softirqs are late, and the lines that would explain it come last.
False alarms: a boot logs much at once, and so does one oops. Both are over in seconds; lines of the first minutes do
    not count, and those below the console's level are never printed. A virtual machine's serial port may be faster than
    the speed that it is set to: where stacks were sampled, they must show the printing.
References: Documentation/admin-guide/serial-console.rst; Documentation/core-api/printk-basics.rst (console_loglevel);
    https://www.suse.com/support/kb/doc/?id=000020516
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Finding, Reading, harmless, lasting, percent
from zombiescope.core.harm import Harm
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.kernel_log import LOG, log_of
from zombiescope.derived.sampled_work import by_process, spells
from zombiescope.knowledge.functions import shows

SPEED, LEVEL, SAMPLES = "console_bytes_per_second", "console_level", "samples_total"
# Scale: bytes a second of one line: the same on any node.
NEEDS = (LOG, LEVEL)
FULL = 0.5  # of what the line takes: every other moment somebody waits for it
LASTS = 5.0  # seconds: an oops with the stacks of all cores takes less
STEP = 1.0  # seconds for which bytes are counted
LEAST = 0.1  # of a core, as stacks show: less keeps nobody waiting
HEAD = 15  # bytes that printk puts before a line: [12345.678901] and a space
BOOT = 300.0  # seconds after the start in which a node logs whatever it finds
SHOWN = 3  # lines, as evidence
_VARIES = re.compile(r"0x[0-9a-f]+|\d+")


def find(timeline: Timeline) -> Iterator[Finding]:
    consoles, level = timeline.latest(SPEED), timeline.latest(LEVEL)
    if not consoles or not level:
        return
    slowest = min(consoles, key=lambda it: it.value)
    printed = _printed(timeline, level[0].value)
    for flood in _bytes(printed).runs(above=FULL * slowest.value, lasting=LASTS, bridging=2 * STEP):
        work = timeline.samples(flood.span, wanted=lambda frames: shows(frames, "console_print"))
        if timeline.looked(SAMPLES, 2) and work.seconds < LEAST * flood.span.seconds:
            continue
        yield _finding(timeline, slowest, printed, flood, work)


def _finding(timeline: Timeline, console: Reading, printed: Series, flood: Series, work: Samples) -> Finding:
    lines = [place for place in printed.texts if flood.span.start <= printed.at[place] <= flood.span.end]
    often, words = _most(printed, lines)
    seen = (work.reading(console.subject, "console_print_sampled_seconds"),) if len(work) else ()
    parts = [part for who, own in by_process(work) for one in spells(who, own) for part in one.burnt(timeline)]
    return Finding(
        subject=console.subject,
        span=flood.span,
        says=(
            f"was kept busy by the kernel's log for {lasting(flood.span.seconds)}: {flood.mean():,.0f} bytes a "
            f"second, {percent(flood.mean() / console.value)} of what it is set to; {percent(often)} of the lines "
            f"are like: {words}"
        ),
        evidence=(
            flood.figure("console_printed_bytes_per_second"),
            console,
            *seen,
            *map(printed.reading, lines[:SHOWN]),
        ),
        harm=Harm(parts=tuple(parts), unknown=() if parts else ("burnt",)),
    )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    consoles, level = timeline.latest(SPEED), timeline.latest(LEVEL)
    if not consoles:
        return "no serial console is in use", tuple(level)
    slowest = min(consoles, key=lambda it: it.value)
    rate = _bytes(_printed(timeline, level[0].value))
    most = float(rate.values.max()) if len(rate) else 0.0
    name = slowest.subject.removeprefix("console:")
    return f"{name}: at most {most:,.0f} of {slowest.value:,.0f} bytes a second", (slowest, *level)


def _printed(timeline: Timeline, level: float) -> Series:
    """The lines that go to a console, without those of the node's start."""
    log = log_of(timeline)
    up = timeline.series("uptime_seconds")
    since = up.first.at - up.first.value + BOOT if len(up) else -np.inf
    kept = {place: text for place, text in log.texts.items() if log.values[place] < level and log.at[place] >= since}
    return replace(log, texts=kept)


def _bytes(printed: Series) -> Series:
    """Bytes a second, second by second."""
    places = sorted(printed.texts)
    if not places:
        return replace(printed, at=printed.at[:0], values=printed.values[:0], texts={})
    at = printed.at[places]
    size = np.array([len(printed.texts[it]) + HEAD for it in places], float)
    second, where = np.unique(np.floor((at - at[0]) / STEP), return_inverse=True)
    quiet = np.setdiff1d(second + 1, second)  # only these: a recording may be of hours, or hold a time that is wrong
    edges = np.concatenate([second, quiet])
    values = np.concatenate([np.bincount(where, weights=size) / STEP, np.zeros(len(quiet))])
    order = np.argsort(edges)
    starts = at[0] + edges[order] * STEP
    return replace(printed, at=starts, values=values[order], until=float(starts[-1]) + STEP, texts={}, pace=STEP)


def _most(printed: Series, lines: list[int]) -> tuple[float, str]:
    """The wording that most lines share, numbers aside, and its share."""
    words = Counter(_VARIES.sub("…", printed.texts[it]) for it in lines)
    if not words:
        return 0.0, ""
    text, count = words.most_common(1)[0]
    return count / len(lines), harmless(text, most=80)
