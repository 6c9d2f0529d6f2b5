"""The kernel's own objects take a large part of the memory, and it cannot or hardly give them back.

Why it hurts: it is memory that no program gets and that no process list shows; who searches it for something to free
    (reclaim) takes the longer the more there is.
False alarms: a file server keeps millions of names on purpose and gives them back when asked, so names and files that
    exist do not count. Memory cgroups, sockets and leaks in drivers do; so do names that do not exist (negative
    dentries), which a program makes by the million that tries one path after the other.
References: Documentation/filesystems/proc.rst (SUnreclaim); Documentation/admin-guide/sysctl/fs.rst (dentry-state).
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Reading, amount
from zombiescope.core.timeline import Timeline

UNRECLAIMABLE, TOTAL, NEGATIVE = "memory_slab_unreclaimable_bytes", "memory_total_bytes", "dentries_negative"
NEEDS = (UNRECLAIMABLE, TOTAL)
LARGE = 0.15  # of all memory: an ordinary node has 0.5 to 3 %, and a tenth on small ones
NAMES = 0.1  # of all memory in names that do not exist: at 192 bytes each 13 million on 24 GB
EACH = 192  # bytes: a name of up to 39 letters; a longer one has more
TOP = 3  # kinds of objects named


def find(timeline: Timeline) -> Iterator[Finding]:
    kept, total = timeline.series(UNRECLAIMABLE), timeline.series(TOTAL).latest
    for spell in kept.runs(above=LARGE * total.value, lasting=0.0):
        yield Finding(
            subject="node",
            span=spell.span,
            says=(
                f"{amount(spell.latest.value)} of kernel objects that cannot be freed, "
                f"{spell.latest.value / total.value:.0%} of all memory{_kinds(timeline)}"
            ),
            evidence=(spell.latest, total, *_largest(timeline)),
        )
    for spell in timeline.series(NEGATIVE).runs(above=NAMES * total.value / EACH, lasting=0.0):
        held = spell.latest.value * EACH
        yield Finding(
            subject="cache:dentry",
            span=spell.span,
            says=(
                f"{spell.latest.value:,.0f} names that do not exist are kept, "
                f"{amount(held)} or {held / total.value:.0%} of all memory"
            ),
            evidence=(spell.latest, total),
        )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    kept, total = timeline.series(UNRECLAIMABLE), timeline.series(TOTAL)
    if not len(kept) or not len(total):
        return "", ()
    share = kept.latest.value / max(total.latest.value, 1.0)
    return f"{amount(kept.latest.value)} of kernel objects, {share:.1%} of all memory", (kept.latest, total.latest)


def _largest(timeline: Timeline) -> list[Reading]:
    return sorted(timeline.latest("slab_cache_bytes"), key=lambda it: it.value, reverse=True)[:TOP]


def _kinds(timeline: Timeline) -> str:
    kinds = [f"{it.subject.removeprefix('cache:')} {amount(it.value)}" for it in _largest(timeline)]
    return f"; the largest kinds: {', '.join(kinds)}" if kinds else ""
