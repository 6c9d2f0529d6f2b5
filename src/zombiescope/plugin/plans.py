"""What would help a node, as `diagnose` offers it: in words, or as commands to type there.

What a pod answered is not trusted: it is printed so that a terminal shows it and does not obey it, and a command whose
words hold anything but printable characters is not offered for typing at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zombiescope.core import harmless
from zombiescope.core.commands import command

SAFE = "safe"
OURS = "/own_python.py"  # how a step runs a module of ours: by a path that the pod has and the node has not
ON_THE_NODE = "On the node itself: zombiescope fix (shows the commands), zombiescope fix --apply (carries them out)"


def in_words(told: Mapping[str, Any]) -> Iterator[str]:
    """Every plan with its steps."""
    for plan in told["remedies"]:
        yield harmless(f"{plan['name']} ({plan['risk']}), for {plan['cures']}")
        for step in plan["steps"]:
            yield f"    {harmless(str(step['says']))}"
            if command := _command(step):
                yield f"        $ {command}"
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
            chosen.setdefault((str(plan["cures"]), str(plan["subject"])), plan)
    if chosen:
        yield f"# Nothing was changed: an agent in a pod sees the node read-only. On {harmless(node)}, as root:"
        yield "# (zombiescope fix --apply does the same there, writes a ledger, and can undo it)"
    for plan in chosen.values():
        yield harmless(f"# {plan['name']}, for {plan['cures']} of {plan['subject']}")
        for step in _acts(plan):
            yield f"# {harmless(str(step['says']))}"
            yield _command(step)
    for plan in told["remedies"]:
        if plan not in chosen.values():
            ours = any(str(word).endswith(OURS) for step in plan["steps"] for word in step.get("argv") or ())
            why = "needs zombiescope on the node" if ours and plan["risk"] == SAFE else plan["risk"]
            yield harmless(f"# left out: {plan['name']} ({why}), for {plan['cures']} of {plan['subject']}")
    if not chosen:
        yield "# there is no safe plan with commands for what was found"


def _acts(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Its steps that do something, without what would disrupt: as `fix --apply` takes them."""
    return [step for step in plan["steps"] if step.get("argv") and step.get("risk") == SAFE]


def _command(step: Mapping[str, Any]) -> str:
    """As a shell takes it; empty if there is none, if a terminal would change it, or if it is a program of the pod."""
    words = [str(it) for it in step.get("argv") or ()]
    content = str(step.get("stdin") or "")
    if any(it.endswith(OURS) for it in words):
        return ""
    return command(*words, stdin=content)
