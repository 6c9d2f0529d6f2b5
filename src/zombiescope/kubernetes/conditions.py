"""What a node says of itself: conditions in which True is bad, as node-problem-detector has them.

`ZombiescopeStarved` stands for all findings. One a family stands beside it, for those who act on one of them alone.
Whether a finding goes on is decided before (agent/findings.py): it ends only after five quiet minutes, so a condition
does not flap with a fault that comes and goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zombiescope.core import harmless
from zombiescope.core.commands import command
from zombiescope.outputs._subjects import in_words

STARVED = "ZombiescopeStarved"
# By condition: the sign that decides whether it could be seen, then others of the same family.
FAMILIES = {
    "NICPollStarved": ("starved_softirq", "driver_reset", "long_softirq"),
    "DyingCgroupsHarmful": ("zombie_cgroups", "slow_stat_read", "cgroup_walker"),
    "CrashLoopingAgent": ("crash_looping_unit", "unused_agent"),
}
TYPES = (STARVED, *FAMILIES)
BAD, GOOD, UNKNOWN = "True", "False", "Unknown"
LONGEST = 256  # characters of a message
MOST_BLIND = 0.5  # share of the signs: where more cannot look, "nothing found" would say too much
GRADES = ("info", "warning", "critical")
LOOKED = ("found", "clear")


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: str
    reason: str  # one CamelCase word
    message: str

    def same_state(self, other: Condition) -> bool:
        """Messages hold figures that change with each look: they wait for the next heartbeat."""
        return (self.type, self.status, self.reason) == (other.type, other.status, other.reason)


def conditions(node: str, states: Mapping[str, str], going_on: Sequence[Mapping[str, Any]]) -> tuple[Condition, ...]:
    """After a look: by what each sign said, and what goes on."""
    worst = sorted(going_on, key=lambda it: -GRADES.index(it["severity"]))  # the first of equals stays first
    return (_starved(node, states, worst), *(_family(name, node, states, worst) for name in FAMILIES))


def unknown(reason: str, why: str) -> tuple[Condition, ...]:
    """All of them, when nobody looks."""
    return tuple(Condition(name, UNKNOWN, reason, cut(why)) for name in TYPES)


def camel_case(sign: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in sign.split("_") if part.isalnum() and part.isascii())


def _starved(node: str, states: Mapping[str, str], worst: Sequence[Mapping[str, Any]]) -> Condition:
    if worst:
        more = f" ({len(worst) - 1} more)" if len(worst) > 1 else ""
        return Condition(STARVED, BAD, camel_case(worst[0]["sign"]), message(node, worst[0], more))
    blind = [sign for sign, state in states.items() if state not in LOOKED]
    if not states or len(blind) > MOST_BLIND * len(states):
        words = f"{len(blind)} of {len(states)} checks could not look; why: {_command(node)}"
        return Condition(STARVED, UNKNOWN, "Blind", cut(words))
    if blind:
        words = f"nothing found; {len(blind)} of {len(states)} checks could not look: {', '.join(sorted(blind))}"
        return Condition(STARVED, GOOD, "NothingFoundPartlyBlind", cut(words))
    return Condition(STARVED, GOOD, "NothingFound", f"all {len(states)} checks looked and found nothing that harms")


def _family(name: str, node: str, states: Mapping[str, str], worst: Sequence[Mapping[str, Any]]) -> Condition:
    signs = FAMILIES[name]
    for it in worst:
        chain = [it["sign"], *(one["sign"] for one in it["chain"])]
        found = next((sign for sign in signs if sign in chain), "")
        if found:
            return Condition(name, BAD, camel_case(found), message(node, it))
    if states.get(signs[0]) not in LOOKED:
        return Condition(name, UNKNOWN, "Blind", cut(f"{signs[0]} could not look; why: {_command(node)}"))
    return Condition(name, GOOD, "NothingFound", f"{signs[0]} looked and found nothing that harms")


def message(node: str, found: Mapping[str, Any], more: str = "", most: int = LONGEST) -> str:
    """The root cause, what it costs, and the command to look further: that always has room."""
    end = cut(f"{more}; see: {_command(node)}", most - 20)
    cost = str(found["harm"].get("says", ""))
    said = f"{in_words(str(found['subject']))} {found['says']}" + (f"; {cost}" if cost else "")
    return cut(said, max(most - len(end), 20)) + end


def cut(text: str, most: int = LONGEST) -> str:
    """Harmless, and never longer: what is escaped gets longer."""
    shown = harmless(text, most=most)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _command(node: str) -> str:
    return command("kubectl", "zombiescope", "diagnose", node)
