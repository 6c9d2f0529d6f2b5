"""A guest with faults that this machine cannot have: a slow clock, and every system call of a program audited.

It is recorded there and diagnosed here. Emulated processors are slow, so that any clock is: what counts is that the
clock is named, and that stacks show who pays for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kernels.many_cores import unpacked

VICTIM = "victim"
PLAN = {"busy": (), "name": VICTIM, "hz": 49, "seconds": 20.0, "faults": ("clock", "audit")}
APPEND = "clocksource=hpet audit=1"
WANTED = {"slow_clock": "clock:hpet", "hook_tax": "hook:audit"}  # and the subject of each


def judge_faults(seen: dict[str, Any], folder: Path) -> list[str]:
    """What is wrong, in words."""
    if wrong := unpacked(seen, folder):
        return [wrong]
    asked = [sys.executable, "-m", "zombiescope", "diagnose", str(folder / "recording"), "--format", "json"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    if said.returncode not in (0, 1, 3):
        return [f"diagnose ended with {said.returncode}: {said.stderr}"]
    return list(_compared(json.loads(said.stdout)))


def _compared(told: dict[str, Any]) -> list[str]:
    wrong = []
    for sign, subject in WANTED.items():
        verdict = next(it for it in told["verdicts"] if it["sign"] == sign)
        found = [it for it in told["findings"] if it["sign"] == sign]
        if not any(it["subject"] == subject for it in found):
            wrong.append(f"{sign} is {verdict['state']}: {verdict['says']}; of {[it['subject'] for it in found]}")
        elif not any(VICTIM in name for it in found for name in _payers(it)):
            wrong.append(f"{sign} of {subject} does not say that {VICTIM} pays for it: {found[0].get('harm')}")
    return wrong


def _payers(finding: dict[str, Any]) -> list[str]:
    return [*(finding.get("harm") or {}).get("whom", ()), finding["says"]]
