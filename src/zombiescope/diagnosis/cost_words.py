"""A cost in one line: costs 1.9 of 96 cores (trainer waits 1.3, kubelet burns 0.6), 3 resets, 1 job, since 05:10."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from zombiescope.core.harm import Harm
from zombiescope.core.words import amount, harmless
from zombiescope.diagnosis.counted import Spent

NAMED = 3  # who waits or burns, by name; the rest are counted
LITTLE = 0.005  # cores: less is said to be nothing
_LONG_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{32,64}(?![0-9a-f])")
_PID = re.compile(r"\[\d+\]$")
_KINDS = ("jobs", "kills", "resets", "refused", "drops")  # the worst first
_ONE = {
    "jobs": "job",
    "kills": "kill",
    "resets": "reset",
    "refused": "refusal",
    "drops": "lost packet",
    "crashes": "crash",
}
_MANY = {"drops": "lost packets", "refused": "refusals"}
_FIGURES = {"waited": "waiting", "burnt": "CPU burnt", "held": "memory held", "soon": "growth", "broken": "failures"}


def words(harm: Harm, waited: Spent, burnt: Spent, cores: int) -> str:
    worst = [*_cores(waited, burnt, cores), *_broken(harm, _KINDS)]
    said = worst or _filling(harm)
    unknown = [_FIGURES[it] for it in harm.unknown]
    lacking = f"; not measured: {', '.join(unknown)}" if unknown else ""
    soon = harm.limit if harm.soon_seconds is not None else ""
    if said:
        # Where work fails or waits, what merely fills up is in the figures, not in the sentence.
        after = f"; {soon}" if soon and not worst else ""
        return f"costs {', '.join(said)}{_since(harm)}{after}{lacking}"
    if soon:
        return f"costs nothing yet; {soon}{lacking}"
    return f"costs nothing that was measured{lacking}" if lacking else "costs nobody anything"


def _cores(waited: Spent, burnt: Spent, cores: int) -> list[str]:
    total = waited.cores + burnt.cores
    if total < LITTLE:
        return []
    shares = [(who, "waits", value) for who, value in waited.by] + [(who, "burns", value) for who, value in burnt.by]
    shares = [it for it in shares if it[2] >= LITTLE]
    named = ", ".join(f"{_short(who)} {verb} {_number(value)}" for who, verb, value in shares[:NAMED])
    more = f" and {len(shares) - NAMED:,} more" if len(shares) > NAMED else ""
    return [f"{_number(total)}{f' of {cores}' if cores else ''} cores ({named}{more})"]


def _filling(harm: Harm) -> list[str]:
    held = [f"{amount(harm.held_bytes)} held"] if harm.held_bytes else []
    return [*_broken(harm, ("crashes",)), *held]


def _broken(harm: Harm, kinds: tuple[str, ...]) -> list[str]:
    times = dict(harm.broken)
    said = [kind for kind in kinds if times.get(kind)]
    return [f"{times[it]:,} {_ONE[it] if times[it] == 1 else _MANY.get(it, it)}" for it in said]


def _since(harm: Harm) -> str:
    start = min((part.span.start for part in harm.parts), default=0.0)
    return f", since {datetime.fromtimestamp(start, UTC):%H:%M}" if 0 < start < 4e9 else ""


def _short(who: str) -> str:
    """As people call it: no kind, no pid, identifiers as docker and kubectl show them."""
    kind, _, name = who.partition(":")
    if not name:
        return "this node" if who == "node" else harmless(who, most=40)
    name = _PID.sub("", _LONG_ID.sub(lambda found: found[0][:12], name)) or name
    return harmless(f"cpu {name}" if kind == "cpu" else name, most=40)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"
