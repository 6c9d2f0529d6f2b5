"""Scopes that systemd keeps though no process is left in them.

Why it hurts: each is a live cgroup in every hierarchy, with all its files, so whatever walks cgroups pays for it
    (kubelet, cadvisor, the kernel's own statistics), and systemd keeps a unit for each. They are not dying cgroups:
    they have folders, and a count of dying cgroups does not include them.
False alarms: a scope whose last process has just ended is empty for a moment, and systemd then removes it. A dozen at a
    time is a busy node; they add up only where systemd misses the notification (on cgroup v1, or in a container) or is
    itself stuck.
References: https://github.com/kubernetes/kubernetes/issues/64137 (run-*.scope for each mount of a secret).
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.census import bytes_each
from zombiescope.cgroups.families import family
from zombiescope.core import Finding, Reading, harmless
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.growth import reaches

# Scale: systemd has one limit on any node; MANY is of scopes that should not be there at all.
NEEDS = ("empty_scopes",)
UNITS = 131_072  # systemd's MANAGER_MAX_NAMES, src/core/unit.c: it refuses to load more
GROWN = 10  # more over a recording: fewer is sessions that come and go
MANY = 100  # as many as a full node has pods; a healthy node has none for longer than a moment


def find(timeline: Timeline) -> Iterator[Finding]:
    for spell in timeline.series(NEEDS[0]).runs(above=MANY, lasting=0.0):
        latest = spell.latest
        all_scopes = timeline.series("scopes").between(spell.span)
        of = f" of {all_scopes.latest.value:,.0f}" if len(all_scopes) else ""
        kinds = dict.fromkeys(family(f"/{name}")[1:] for name in latest.text.split())
        grown = latest.value - spell.first.value
        more = f", {grown:,.0f} more in {spell.span.seconds:.0f} s" if grown > 0 else ""
        yield Finding(
            subject="node",
            span=spell.span,
            says=f"keeps {latest.value:,.0f}{of} scopes without a process{more}: {harmless(', '.join([*kinds][:3]))}",
            evidence=(latest, *([all_scopes.latest] if len(all_scopes) else [])),
            harm=_harm(timeline, spell),
        )


def _harm(timeline: Timeline, spell: Series) -> Harm:
    """Each keeps a cgroup; at its limit of units systemd starts nothing any more."""
    held = Part(figure="held", who="node", amount=spell.latest.value * bytes_each(timeline), span=spell.span)
    empty, called = timeline.series(NEEDS[0]), f"systemd's limit of {UNITS:,} units"
    return reaches(timeline, empty, UNITS, least=GROWN, called=called).added_to(Harm(parts=(held,)))


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    empty = timeline.series(NEEDS[0])
    return (f"{empty.latest.value:,.0f} empty scopes", (empty.latest,)) if len(empty) else ("", ())
