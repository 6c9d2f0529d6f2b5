"""Whether CPU throttling on this node is explained by memory reclaim.

A cgroup that reclaims memory does so on its own CPU quota, so reclaim can use the quota up; but quotas are mostly used
up by ordinary work. So for each throttled cgroup both are compared, interval by interval: is there more throttling
while there is reclaim, and how much is there without? Shuffling shows how often chance gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zombiescope.core import Answer, Reading, harmless, percent
from zombiescope.core.timeline import Floats, Series, Timeline
from zombiescope.derived.cores import busy_cores, risen

ASKS = "Is CPU throttling on this node explained by memory reclaim?"
THROTTLED, HITS, STALLS = "cgroup_throttled_seconds_total", "cgroup_limit_hits_total", "vmstat_allocstall_total"
OWN, NODE = "cgroup_memory_stall_seconds_total", "pressure_memory_waiting_seconds_total"
LEAST = 0.05  # seconds of throttling a second, on average: less needs no explanation
RECLAIM = 0.02  # of an interval, of one core, spent waiting for memory: less is the noise of a healthy node
HITTING = 1.0  # hits of its limit a second, or direct reclaims on the node: with fewer, other cgroups wait, not this
WITHOUT = 0.5  # of the throttled time in intervals without reclaim: then most of it has another cause
TIMES = 2.0  # times as much throttling with reclaim as without: less is no substantial effect
CHANCE = 0.02  # how often a shuffle may show as much
FEWEST = 6  # intervals with reclaim, and as many without: fewer cannot be distinguished from chance
BLOCK = 2  # intervals shuffled together, or as many as a period of reclaim has: neighbouring intervals are alike
SHUFFLES = 2_000  # the smallest chance that can be measured is 1 in 2,001


@dataclass(frozen=True, slots=True)
class _Verdict:
    state: str
    says: str
    weight: float  # seconds of throttling that it is about
    evidence: tuple[Reading, ...]


def answer(timeline: Timeline) -> Answer:
    if not timeline.looked(THROTTLED, 2) or not (timeline.looked(NODE, 2) or timeline.looked(OWN, 2)):
        return Answer(state="cannot tell", says="throttling, or waiting for memory, was not sampled")
    verdicts = sorted(_verdicts(timeline), key=lambda it: it.weight, reverse=True)
    if not verdicts:
        return Answer(state="cannot tell", says=f"nothing to explain: no cgroup was throttled {LEAST:g} s a second")
    total = sum(it.weight for it in verdicts)
    for state in ("supported", "refuted"):
        agreed = [it for it in verdicts if it.state == state]
        if sum(it.weight for it in agreed) > total / 2:
            return Answer(state=state, says=_told(agreed, total), evidence=agreed[0].evidence)
    return Answer(state="cannot tell", says=_told(verdicts, total), evidence=verdicts[0].evidence)


def _told(verdicts: list[_Verdict], total: float) -> str:
    first, seconds = verdicts[0], sum(it.weight for it in verdicts)
    rest = f"; with {len(verdicts) - 1} more cgroups {seconds:.1f} s" if len(verdicts) > 1 else ""
    return f"{first.says}{rest}; {total:.1f} s of throttling in all"


def _verdicts(timeline: Timeline) -> Iterator[_Verdict]:
    for subject in timeline.subjects(THROTTLED, "cgroup"):
        throttled = timeline.series(THROTTLED, subject)
        waiting, seen_by = _waiting(timeline, subject)
        if not len(waiting):
            continue
        # Intervals are those of the source that was sampled less often.
        looks = min((timeline.looks(what).at for what in (THROTTLED, waiting.what)), key=len)
        edges = np.unique(looks)
        stopped = risen(timeline.rate(THROTTLED, subject), edges)
        waited = risen(timeline.rate(waiting.what, waiting.subject), edges)
        if waiting.what == NODE and seen_by:
            waited = waited * busy_cores(timeline, edges)  # the node's pressure is an average over its busy cores
        if not seen_by:
            waited = np.zeros(len(waited))
        known = ~(np.isnan(stopped) | np.isnan(waited))
        lengths = np.diff(edges)[known]
        stopped, reclaim = stopped[known], waited[known] >= RECLAIM
        if not len(stopped) or np.average(stopped, weights=lengths) < LEAST:
            continue
        state, why = _judged(stopped, reclaim, lengths)
        yield _Verdict(
            state=state,
            says=f"{harmless(subject.removeprefix('cgroup:'))}: {why}{f' ({seen_by})' if seen_by else ''}",
            weight=float((stopped * lengths).sum()),
            evidence=(throttled.first, throttled.latest, waiting.first, waiting.latest),
        )


def _waiting(timeline: Timeline, subject: str) -> tuple[Series, str]:
    """How long tasks waited for memory: the cgroup's own, or the node's where the cgroup or the node does reclaim."""
    own = timeline.series(OWN, subject)
    if len(own) > 1:
        return own, "by its own pressure"
    node = timeline.series(NODE)
    hits, stalls = timeline.rate(HITS, subject), timeline.rate(STALLS)
    if len(hits) and np.nan_to_num(hits.values).max() >= HITTING:
        return node, "by the node's pressure while it hit its memory limit"
    if len(stalls) and np.nan_to_num(stalls.values).max() >= HITTING:
        return node, "by the node's pressure"
    return node, ""  # this cgroup's tasks did not reclaim, however long others waited


def _judged(stopped: Floats, reclaim: np.ndarray[tuple[int], np.dtype[np.bool_]], lengths: Floats) -> tuple[str, str]:
    seconds = stopped * lengths
    without = float(seconds[~reclaim].sum() / seconds.sum())
    counted = f"{np.count_nonzero(reclaim)} of {len(reclaim)} intervals with reclaim"
    if not reclaim.any():
        return "refuted", f"throttled for {seconds.sum():.1f} s and never reclaimed, in {len(reclaim)} intervals"
    enough = min(np.count_nonzero(reclaim), np.count_nonzero(~reclaim)) >= FEWEST
    if without >= WITHOUT and np.count_nonzero(~reclaim) >= FEWEST:
        share = percent(without)
        return "refuted", f"{share} of {seconds.sum():.1f} s of throttling came without reclaim; {counted}"
    if not enough:
        return "cannot tell", f"{counted}, too few to compare: record for longer"
    with_, less = float(stopped[reclaim].mean()), float(stopped[~reclaim].mean())
    figures = f"throttled {with_:.2f} s a second with reclaim and {less:.2f} without; {counted}"
    if with_ < TIMES * less:
        return "refuted", f"{figures}: no substantial difference"
    chance = _chance(stopped, reclaim)
    if chance > CHANCE:
        likely = percent(chance)
        return "cannot tell", f"{figures}, but chance shows as much in {likely} of shuffles: record for longer"
    return "supported", f"{figures}; chance shows as much in {percent(chance, 2)} of shuffles"


def _chance(stopped: Floats, reclaim: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
    """How often the same intervals in another order, in blocks, show as much throttling where there is reclaim."""
    seen = float(stopped[reclaim].sum())
    spells = np.count_nonzero(np.diff(reclaim, prepend=False) & reclaim)
    length = max(BLOCK, round(np.count_nonzero(reclaim) / spells))
    blocks = np.array_split(stopped, max(len(stopped) // length, 1))
    dice = np.random.default_rng(0)  # the same recording gives the same answer
    more = sum(
        float(np.concatenate([blocks[place] for place in dice.permutation(len(blocks))])[reclaim].sum()) >= seen
        for _ in range(SHUFFLES)
    )
    return (more + 1) / (SHUFFLES + 1)
