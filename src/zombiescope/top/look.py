"""A look at the last minutes of a recording: who harms whom, and which stacks run on which core. Runs in a copy (fork).

It reads and names everything, which takes a second of CPU on a large node; so it runs now and then, at idle priority.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zombiescope.core import Case, Finding, Span, harmless
from zombiescope.core.commands import command, typed
from zombiescope.core.samples import Samples
from zombiescope.derived.sampled_processes import processes
from zombiescope.diagnosis.examine import examine
from zombiescope.outputs._story import headline, next_commands
from zombiescope.outputs._subjects import in_words
from zombiescope.recorder.replay import opened

WINDOW = 180.0  # seconds that findings are looked for in
STACKS = 30.0  # seconds whose samples are shown
MOST_FINDINGS, MOST_EVIDENCE = 40, 6
MOST_WHO = 5  # processes of a core, and stacks of a process
MOST_TASKS = 40
MOST_FRAMES = 40  # of one stack, the innermost


def look(folder: str, at: float) -> tuple[dict[str, Any], bytes]:
    """As plain data, at a moment of the recording."""
    recording = opened(folder)
    timeline = recording.timeline(Span(at - WINDOW, at))
    case = examine(timeline, node=str(recording.meta.get("node", "")), kernel=str(recording.meta.get("kernel", "")))
    state, says = headline(case)
    samples = timeline.samples(Span(at - STACKS, at))
    busy = samples.only(samples.busy) if len(samples) else samples
    unseen = [it for it in case.verdicts if it.state in ("blind", "broken")]
    return {
        "at": at,
        "state": state,
        "says": harmless(says),
        "findings": _findings(case),
        "blind": [harmless(f"{it.sign}: {it.says}") for it in unseen],
        "checks": len(case.verdicts),
        "sampled": min(STACKS, timeline.span.seconds),
        "cores": _cores(busy),
        "tasks": _tasks(busy),
        "damage": [harmless(it) for it in recording.damage[:3]],
    }, b""


def _findings(case: Case) -> list[dict[str, Any]]:
    """Root causes first, then what follows or has no cause, then what harms nobody."""
    roots, aside = case.root_causes, case.set_aside
    rest = [it for it in case.problems if it not in roots]
    chains = {chain[0]: chain for chain in reversed(case.chains)}
    commands = next_commands(case)

    def said(it: Finding, rank: str) -> dict[str, Any]:
        return {
            "rank": rank,
            "sign": it.sign,
            "subject": harmless(in_words(it.subject), most=120),
            "says": harmless(it.says),
            "cost": harmless(case.cost_of(it).says),
            "start": it.span.start,
            "end": it.span.end,
            "chain": [harmless(f"{one.sign}: {in_words(one.subject)} {one.says}") for one in chains.get(it, ())],
            "evidence": [
                harmless(f"{one.what} {one.value:g} {one.text}  ({typed(one.source)})")
                for one in it.evidence[:MOST_EVIDENCE]
            ],
            "next": commands if rank == "cause" else [command("zombiescope", "explain", it.sign)],
        }

    ranked = [*((it, "cause") for it in roots), *((it, "found") for it in rest)]
    ranked += [(it, "noted") for it in case.findings if it in aside and it not in case.past]
    return [said(it, rank) for it, rank in ranked[:MOST_FINDINGS]]


def _cores(samples: Samples) -> dict[str, list[list[Any]]]:
    """By core: processes with their cores' worth and the stack that most of it was spent in."""
    if not len(samples):
        return {}
    found = {}
    for cpu in np.unique(samples.cpu).tolist():
        there = samples.only(samples.cpu == cpu)
        found[str(cpu)] = [
            [harmless(f"{name}[{pid}]", most=60), round(own.seconds, 3), _stack(own)]
            for name, pid, own in processes(there)[:MOST_WHO]
        ]
    return found


def _tasks(samples: Samples) -> dict[str, list[list[Any]]]:
    """By process: its cgroup, and the stacks in which it spent most time."""
    if not len(samples):
        return {}
    found = {}
    for _, pid, own in processes(samples)[:MOST_TASKS]:
        by_stack = np.bincount(own.stack, own.weight_seconds)
        worst = np.argsort(-by_stack)[:MOST_WHO]
        found[str(pid)] = [
            [round(float(by_stack[it]), 3), _shown(own.frames.names(int(it)))] for it in worst if by_stack[it] > 0
        ]
    return found


def _stack(samples: Samples) -> list[str]:
    return _shown(samples.hottest())


def _shown(names: tuple[str, ...]) -> list[str]:
    return [harmless(it, most=120) for it in names[-MOST_FRAMES:]]
