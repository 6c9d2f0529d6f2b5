"""The fixes of a node, as text and as JSON: what was done, when, by which user, and what its proof came to."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

from zombiescope.cli._tables import write_table
from zombiescope.core import harmless
from zombiescope.outputs._exit_codes import CLEAR
from zombiescope.treatment.ledger import Fix, Ledger
from zombiescope.treatment.proofs import KILLED, RUNNING, proof_of


def write(ledger: Ledger, style: str) -> int:
    fixes = [as_json(fix) for fix in ledger.fixes()]
    if style == "json":
        json.dump(fixes, sys.stdout, indent=1)
        print()
        return CLEAR
    rows = [
        (
            *(fix["fix"], fix["state"], _when(fix["at"]), fix["who"], fix["remedy"], harmless(fix["subject"])),
            *(_proof_said(fix), harmless(fix["why"])),
        )
        for fix in fixes
    ]
    write_table(("id", "state", "when", "who", "remedy", "for", "proof", "why"), rows, heading_in_pipe=True)
    return CLEAR


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _proof_said(fix: dict[str, Any]) -> str:
    """proved; running since …, ends at …; killed: --resume 1 checks again."""
    proof = fix["proof"]
    if proof is None:
        return "-"
    if proof["state"] == RUNNING:
        return f"running since {_when(proof['since'])}, ends at {_when(proof['until'])}"
    return f"{KILLED}: --resume {fix['fix']} checks again" if proof["state"] == KILLED else str(proof["state"])


def as_json(fix: Fix) -> dict[str, Any]:
    first, steps = fix.events[0], fix.steps()
    return {
        "fix": fix.id,
        "state": fix.state,
        "at": first["at"],
        "who": first.get("who", {}).get("user", "?"),
        "remedy": fix.plan["name"],
        "subject": fix.plan["cures"]["subject"],
        "proof": proof_of(fix),
        "why": fix.why,
        "steps": [
            {
                "says": step["says"],
                "state": "done" if "done" in steps.get(number, {}) else "begun" if number in steps else "not begun",
                "said": steps.get(number, {}).get("done", {}).get("said", ""),
            }
            for number, step in enumerate(fix.plan["steps"])
        ],
    }
