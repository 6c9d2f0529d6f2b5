"""What would help a node, as `diagnose` offers it: in words, or as commands to type there.

It takes answers that were checked (see answers.py); a command that a terminal would not show as it is has no text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zombiescope.core import harmless
from zombiescope.core.commands import command
from zombiescope.plugin.own_commands import is_own_program

SAFE = "safe"
ON_THE_NODE = "On the node itself: zombiescope fix (shows the commands), zombiescope fix --apply (carries them out)"


def in_words(told: Mapping[str, Any]) -> Iterator[str]:
    """Every plan with its steps."""
    for plan in told["remedies"]:
        yield f"{plan['name']} ({plan['risk']}), for {plan['cures']}"
        if plan["refused"]:
            yield f"    {plan['refused']}"
        for step in plan["steps"]:
            yield f"    {step['says']}"
            if text := _command(step):
                yield f"        $ {text}"
    if any(_acts(plan) for plan in told["remedies"]):
        yield ON_THE_NODE
    elif not told["remedies"]:
        yield "no remedy is known for what was found" if told["findings"] else "nothing was found"


def as_script(told: Mapping[str, Any], node: str) -> Iterator[str]:
    """The safe plans as a script, one for each finding; what disrupts work is named and left out.

    An agent in a pod sees the node read-only, whatever its rights in the cluster: so a person, or what manages the
    node, runs it there.
    """
    chosen: dict[tuple[str, str], Mapping[str, Any]] = {}
    for plan in told["remedies"]:
        commands = [_command(it) for it in _acts(plan)]
        if plan["risk"] == SAFE and commands and all(commands):
            chosen.setdefault((plan["cures"], plan["subject"]), plan)
    if chosen:
        yield f"# Nothing was changed: an agent in a pod sees the node read-only. On {harmless(node)}, as root:"
        yield "# (zombiescope fix --apply does the same there, writes a ledger, and can undo it)"
    for plan in chosen.values():
        yield f"# {plan['name']}, for {plan['cures']} of {plan['subject']}"
        for step in _acts(plan):
            yield f"# {step['says']}"
            yield _command(step)
    for plan in told["remedies"]:
        if plan not in chosen.values():
            yield f"# left out: {plan['name']} ({_why_not(plan)}), for {plan['cures']} of {plan['subject']}"
    if not chosen:
        yield "# there is no safe plan with commands for what was found"


def _why_not(plan: Mapping[str, Any]) -> str:
    if plan["refused"]:
        return str(plan["refused"])
    ours = any(is_own_program(step["argv"]) for step in plan["steps"])
    return "needs zombiescope on the node" if ours and plan["risk"] == SAFE else str(plan["risk"])


def _acts(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Its steps that do something, without what would disrupt: as `fix --apply` takes them."""
    return [step for step in plan["steps"] if step["argv"] and step["risk"] == SAFE]


def _command(step: Mapping[str, Any]) -> str:
    """As a shell takes it; empty if there is none, or if it is a program of the pod."""
    return "" if is_own_program(step["argv"]) else command(*step["argv"], stdin=step["stdin"])
