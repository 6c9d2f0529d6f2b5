"""The kernel's own objects (slab) take a large part of memory, and little of it can be freed.

Why it hurts: no program can use this memory and no process list shows it; reclaim, which searches it for something to
    free, takes longer the more there is.
False alarms: a file server keeps millions of dentries on purpose and frees them when memory is short, so those of
    existing files do not count. Memory cgroups, sockets and leaks in drivers do; so do negative dentries (names that
    were looked up and do not exist), which a program makes by the million when it tries one path after another.
References: Documentation/filesystems/proc.rst (SUnreclaim); Documentation/admin-guide/sysctl/fs.rst (dentry-state).
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.owners import whose
from zombiescope.core import Finding, Reading, Span, amount, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.culprits import Culprit, sampled_culprit
from zombiescope.knowledge.functions import shows

UNRECLAIMABLE, TOTAL, NEGATIVE = "memory_slab_unreclaimable_bytes", "memory_total_bytes", "dentries_negative"
# Scale: shares of all memory.
NEEDS = (UNRECLAIMABLE, TOTAL)
LARGE = 0.15  # of all memory: an ordinary node has 0.5 to 3 %, and a tenth on small ones
NAMES = 0.1  # of all memory in negative dentries: at 192 bytes each, 13 million on 24 GB
EACH = 192  # bytes of a dentry whose name has up to 39 letters; a longer one takes more
SPACES = 1_000  # network namespaces that are worth saying: four times what a node of 250 pods has
TOP = 3  # kinds of objects named
RISING = 1_000.0  # more negative dentries a second: with fewer, the process that made most of them may be long gone


def find(timeline: Timeline) -> Iterator[Finding]:
    kept, total = timeline.series(UNRECLAIMABLE), timeline.series(TOTAL).latest
    # Each keeps some hundred KB of tables; a full node has one for each pod.
    spaces = [it for it in timeline.latest("network_namespaces") if it.value >= SPACES]
    for spell in kept.runs(above=LARGE * total.value, lasting=0.0):
        yield Finding(
            subject="node",
            span=spell.span,
            says=(
                f"has {amount(spell.latest.value)} of kernel objects that cannot be freed, "
                f"{percent(spell.latest.value / total.value)} of all memory{_kinds(timeline)}"
                + "".join(f"; {it.value:,.0f} network namespaces" for it in spaces)
            ),
            evidence=(spell.latest, total, *_largest(timeline), *spaces),
            harm=_held("cache:slab", spell.latest.value, spell.span),
        )
    for spell in timeline.series(NEGATIVE).runs(above=NAMES * total.value / EACH, lasting=0.0):
        held = spell.latest.value * EACH
        maker = _maker(timeline)
        yield Finding(
            subject="cache:dentry",
            span=spell.span,
            says=(
                f"holds {spell.latest.value:,.0f} negative dentries: "
                f"{amount(held)}, {percent(held / total.value)} of all memory"
                + (f"; most are made by {whose(timeline, maker.process, maker.cgroup)}" if maker else "")
            ),
            evidence=(spell.latest, total, *(maker.evidence if maker else ())),
            harm=_held("cache:dentry", held, spell.span),
            culprit=maker.subject if maker else "",
        )


def _maker(timeline: Timeline) -> Culprit | None:
    """Who looks up names that nobody looked up before, while negative dentries become more; None where they do not."""
    negative = timeline.series(NEGATIVE)
    if negative.latest.value - negative.first.value < RISING * max(negative.span.seconds, 1.0):
        return None
    return sampled_culprit(timeline, negative.span, lambda frames: shows(frames, "name_lookup"))


def _held(cache: str, size: float, span: Span) -> Harm:
    return Harm(parts=(Part(figure="held", who=cache, amount=size, span=span),))


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    kept, total = timeline.series(UNRECLAIMABLE), timeline.series(TOTAL)
    if not len(kept) or not len(total):
        return "", ()
    share = kept.latest.value / max(total.latest.value, 1.0)
    words = f"{amount(kept.latest.value)} of kernel objects that cannot be freed, {percent(share, 1)} of all memory"
    return words, (kept.latest, total.latest)


def _largest(timeline: Timeline) -> list[Reading]:
    return sorted(timeline.latest("slab_cache_bytes"), key=lambda it: it.value, reverse=True)[:TOP]


def _kinds(timeline: Timeline) -> str:
    kinds = [f"{it.subject.removeprefix('cache:')} {amount(it.value)}" for it in _largest(timeline)]
    return f"; largest: {', '.join(kinds)}" if kinds else ""
