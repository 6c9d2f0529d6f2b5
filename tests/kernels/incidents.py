"""Guests with faults that this machine cannot have: a slow clock, an audited program, memory in pieces.

Each is recorded there and diagnosed here. Emulated processors are slow, so that any clock is: what counts is that the
clock is named, and that stacks show who pays for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kernels.many_cores import unpacked

VICTIM = "victim"


@dataclass(frozen=True, slots=True)
class Guest:
    """What happens in a guest, and what must be said of it."""

    faults: tuple[str, ...]  # as guest.py calls them
    wanted: dict[str, str]  # the subject of each sign
    append: str = ""  # to the kernel's command line
    pays: tuple[str, ...] = ()  # signs that must name the victim
    silent: tuple[str, ...] = ()  # signs that must not be found
    seconds: float = 20.0

    def record(self) -> bytes:
        plan = {"busy": (), "name": VICTIM, "hz": 49, "seconds": self.seconds, "faults": self.faults}
        return json.dumps(plan).encode()


GUESTS = {
    "hooks": Guest(
        faults=("clock", "audit"),
        wanted={"slow_clock": "clock:hpet", "hook_tax": "hook:audit"},
        append="clocksource=hpet audit=1",
        pays=("hook_tax",),
        silent=("compaction_stall", "numa_lopsided", "direct_reclaim"),
    ),
    "memory": Guest(
        faults=("pieces",),
        wanted={"compaction_stall": "node"},
        silent=("direct_reclaim", "hook_tax", "numa_lopsided"),
        seconds=24.0,
    ),
}


def judge_faults(guest: Guest, seen: dict[str, Any], folder: Path) -> list[str]:
    """What is wrong, in words."""
    if wrong := unpacked(seen, folder):
        return [wrong]
    asked = [sys.executable, "-m", "zombiescope", "diagnose", str(folder / "recording"), "--format", "json"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    if said.returncode not in (0, 1, 3):
        return [f"diagnose ended with {said.returncode}: {said.stderr}"]
    return list(_compared(guest, json.loads(said.stdout)))


def _compared(guest: Guest, told: dict[str, Any]) -> Iterator[str]:
    states = {it["sign"]: f"{it['state']}: {it['says']}" for it in told["verdicts"]}
    for sign, subject in guest.wanted.items():
        found = [it for it in told["findings"] if it["sign"] == sign]
        if not any(it["subject"] == subject for it in found):
            yield f"{sign} is {states[sign]}; of {[it['subject'] for it in found]}"
        elif sign in guest.pays and not any(VICTIM in it["says"] for it in found):
            yield f"{sign} of {subject} does not say that {VICTIM} pays for it: {found[0]['says']}"
    for it in told["findings"]:
        if it["sign"] in guest.silent:
            yield f"{it['sign']} of {it['subject']} is found, and should not be: {it['says']}"
