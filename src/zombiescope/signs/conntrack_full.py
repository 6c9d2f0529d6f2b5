"""The table of tracked connections is full, or nearly: the kernel drops the first packet of every new connection.

Why it hurts: connections that exist go on, new ones time out, at random and for everybody on the node. CPU, memory and
    the link all look well.
False alarms: a node that is sized to run near its limit. Only the table of the host's own network namespace is counted;
    a pod with its own has its own, and is heard of in the log alone.
References: net/netfilter/nf_conntrack_core.c; Documentation/networking/nf_conntrack-sysctl.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Blind, Finding, Reading, Span
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.episodes import episodes
from zombiescope.derived.kernel_log import LOG, Line, lines_of

_ENTRIES, _LIMIT, _DROPS = "conntrack_entries", "conntrack_limit", "conntrack_drops_total"
NEEDS = ((_ENTRIES, LOG),)
FULL = 0.95  # of the limit: at that the kernel already throws out connections to make room (early drop)
EPISODE = 60.0  # seconds: the kernel's complaint is rate-limited, so a full table is heard of only now and then
SHOWN = 4  # lines of one episode as evidence


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
        return f"at most {np.nanmax(share.values):.1%} of the table was in use", counted
    return "the log tells of no dropped packet", counted or tuple(
        timeline.looks(what).latest for what in (LOG, _ENTRIES) if len(timeline.looks(what))
    )


def _share(timeline: Timeline) -> Series:
    """How full the table was at each look; NaN where there is no limit (nought means none)."""
    entries = timeline.series(_ENTRIES)
    limit = timeline.series(_LIMIT).sampled(entries.at)
    return replace(entries, values=entries.values / np.where(limit > 0, limit, np.nan))


def _finding(subject: str, span: Span, heard: list[Line], timeline: Timeline) -> Finding:
    said: list[str] = []
    evidence: list[Reading] = []
    entries, limit = timeline.series(_ENTRIES).between(span), timeline.series(_LIMIT)
    if subject == "node" and len(entries) and len(limit):
        fullest = entries.reading(int(np.argmax(entries.values)))
        said.append(f"{fullest.value:,.0f} of {limit.latest.value:,.0f} connections tracked")
        evidence += [fullest, limit.latest]
        dropped = timeline.series(_DROPS).between(span)
        if len(dropped) and dropped.latest.value > dropped.first.value:
            said.append(f"{dropped.latest.value - dropped.first.value:,.0f} packets dropped")
            evidence += [dropped.first, dropped.latest]
    if heard:
        times = f"{len(heard)} times" if len(heard) > 1 else "once"
        said.append(f"the kernel says ({times}) that the table is full and drops packets")
    return Finding(
        subject=subject,
        span=span,
        says="; ".join(said),
        evidence=(*evidence, *(line.reading for line in heard[:SHOWN])),
    )
