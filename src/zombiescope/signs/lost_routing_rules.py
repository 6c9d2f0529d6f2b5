"""Somebody removed routing rules that others rely on, and they did not come back.

Why it hurts: the rules of a CNI send each pod's traffic to its own table. A network manager that restarts and removes
    what it does not know takes them all away: pods and node are cut off at once, and each looks healthy by itself.
False alarms: a CNI removes the rule of each pod that ends, one at a time, and adds others; a manager that removes and
    adds the same rules only renews them. So several must go within seconds, and stay away. What it breaks is not
    measured here: it is noted, with who did it.
References: networkd.conf(5), ManageForeignRoutingPolicyRules=; rtnetlink(7), RTM_DELRULE;
    https://www.datadoghq.com/blog/engineering/2023-03-08-deep-dive-into-platform-level-impact
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from zombiescope.core import Finding, Reading, Span, harmless
from zombiescope.core.harm import Harm
from zombiescope.core.timeline import Timeline
from zombiescope.derived.episodes import episodes

CHANGE = "routing_rule_change"
# Scale: a restart removes all it does not know at once, however many pods there are; pods end one by one.
NEEDS = (CHANGE,)
SEVERAL = 3  # rules within one episode: a pod that ends takes one or two along
TOGETHER = 10.0  # seconds: two samples
SHOWN = 4  # changes, as evidence


def find(timeline: Timeline) -> Iterator[Finding]:
    changes = timeline.series(CHANGE)
    every = [changes.reading(place) for place in sorted(changes.texts)]
    for group in episodes([it for it in every if it.value < 0], lambda it: it.at, apart=TOGETHER):
        back = Counter(_rule(it) for it in every if it.value > 0 and it.at >= group[0].at)
        gone = [it for it in group if not _again(_rule(it), back)]
        if len(gone) < SEVERAL:
            continue
        by = Counter(_who(it) for it in gone).most_common(1)[0][0]
        yield Finding(
            subject=by if by.startswith("process:") else "node",
            span=Span(group[0].at, group[-1].at),
            says=f"removed {len(gone):,} routing rules that did not come back{_named(by, gone)}",
            evidence=tuple(gone[:SHOWN]),
            culprit=by if by.startswith("process:") else "",
            harm=Harm(),
        )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    changes = timeline.series(CHANGE)
    removed = int((changes.values < 0).sum())
    return f"{removed:,} routing rules were removed, {len(changes) - removed:,} added", (timeline.looks(CHANGE).latest,)


def _again(rule: str, back: Counter[str]) -> bool:
    """Whether it came back; each that came back counts once."""
    back[rule] -= 1
    return back[rule] >= 0


# 512: IPv4 lookup 100 by process:systemd-network[412]
def _rule(reading: Reading) -> str:
    return reading.text.partition(" by ")[0]


def _who(reading: Reading) -> str:
    return harmless(reading.text.partition(" by ")[2])


def _named(by: str, gone: list[Reading]) -> str:
    unknown = "" if by.startswith("process:") else f", by {by}"
    return f"{unknown}; the first: {harmless(_rule(gone[0]))}"
