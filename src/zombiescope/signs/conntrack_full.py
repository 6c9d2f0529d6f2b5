"""The table of tracked connections is full, or nearly: the kernel drops the first packet of every new connection.

Why it hurts: existing connections go on, new ones time out, at random and for everybody on the node. CPU, memory and
    the link all look fine.
False alarms: a node that is sized to run near its limit. Only the table of the host's network namespace is counted;
    a pod with its own namespace has its own table, which shows only in the log.
References: net/netfilter/nf_conntrack_core.c; Documentation/networking/nf_conntrack-sysctl.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Blind, Finding, Reading, Span, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.episodes import episodes
from zombiescope.derived.growth import reaches
from zombiescope.derived.kernel_log import LOG, Line, lines_of

_ENTRIES, _LIMIT, _DROPS = "conntrack_entries", "conntrack_limit", "conntrack_drops_total"
# Scale: a share of the limit, which the kernel derives from memory.
NEEDS = ((_ENTRIES, LOG),)
FULL = 0.95  # of the limit: there the kernel already drops connections to make room (early drop)
EPISODE = 60.0  # seconds: the kernel's message is rate-limited, so a full table is logged only now and then
GROWN = 100  # more entries over a recording: fewer is connections that come and go
SHOWN = 4  # lines of one episode, as evidence


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    heard: dict[str, list[Line]] = {"node": []}
    for line in lines_of(timeline, "conntrack_full"):
        netns = line.message.fields.get("netns")
        heard.setdefault(f"netns:{netns}" if netns else "node", []).append(line)
    for run in _share(timeline).runs(above=FULL, lasting=0.0):
        around = Span(run.span.start - EPISODE, run.span.end + EPISODE)
        its = [line for line in heard["node"] if around.holds(line.reading.at)]
        heard["node"] = [line for line in heard["node"] if line not in its]
        yield _finding("node", run.span, its, timeline)
    for subject, lines in heard.items():
        for episode in episodes(lines, lambda line: line.reading.at, apart=EPISODE):
            yield _finding(subject, Span(episode[0].reading.at, episode[-1].reading.at), episode, timeline)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    counted = tuple(reading for what in (_ENTRIES, _LIMIT) for reading in timeline.latest(what))
    share = _share(timeline)
    if np.isfinite(share.values).any():
        return f"at most {percent(np.nanmax(share.values), 1)} of the table was in use", counted
    return "the log reports no dropped packet", counted or tuple(
        timeline.looks(what).latest for what in (LOG, _ENTRIES) if len(timeline.looks(what))
    )


def _share(timeline: Timeline) -> Series:
    """How full the table was at each sample; NaN where there is no limit (0 means none)."""
    entries = timeline.series(_ENTRIES)
    limit = timeline.series(_LIMIT).sampled(entries.at)
    return replace(entries, values=entries.values / np.where(limit > 0, limit, np.nan))


def _finding(subject: str, span: Span, heard: list[Line], timeline: Timeline) -> Finding:
    said: list[str] = []
    evidence: list[Reading] = []
    entries, limit = timeline.series(_ENTRIES).between(span), timeline.series(_LIMIT)
    if subject == "node" and len(entries) and len(limit):
        fullest = entries.reading(int(np.argmax(entries.values)))
        said.append(f"tracked {fullest.value:,.0f} of at most {limit.latest.value:,.0f} connections")
        evidence += [fullest, limit.latest]
        dropped = timeline.series(_DROPS).between(span)
        if len(dropped) and dropped.latest.value > dropped.first.value:
            said.append(f"{dropped.latest.value - dropped.first.value:,.0f} packets dropped")
            evidence += [dropped.first, dropped.latest]
    if heard:
        times = f"{len(heard)} times" if len(heard) > 1 else "once"
        said += [] if said else ["filled its connection table"]
        said.append(f"the kernel logged {times} that the table is full and packets are dropped")
    return Finding(
        subject=subject,
        span=span,
        says="; ".join(said),
        evidence=(*evidence, *(line.reading for line in heard[:SHOWN])),
        harm=_harm(subject, span, len(heard), timeline),
    )


def _harm(subject: str, span: Span, heard: int, timeline: Timeline) -> Harm:
    """Packets that were dropped: as counted, or at least one for each line; else when the table will be full."""
    dropped = timeline.series(_DROPS).between(span) if subject == "node" else timeline.series(_DROPS, subject)
    lost = dropped.latest.value - dropped.first.value if len(dropped) else 0.0
    if lost or heard:
        lost = max(lost, heard)
        return Harm(parts=(Part(figure="broken", kind="drops", who=subject, amount=lost, span=span),))
    entries, limit = timeline.series(_ENTRIES), timeline.series(_LIMIT)
    harm = Harm(unknown=() if len(dropped) else ("broken",))
    return reaches(timeline, entries, limit.latest.value, least=GROWN, called="the table is full").added_to(harm)
