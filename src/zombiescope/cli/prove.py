"""Whether a cure worked, from two recordings: one from before it, one from after.

The same checks as `fix --apply --prove` makes at once: what was cured is clear, dead cgroups do not grow, no card has
reset, statistics are read quickly, and somebody looked all the time.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from zombiescope.cli._looking import recorded
from zombiescope.core import Finding, UserError, harmless

if TYPE_CHECKING:
    from zombiescope.treatment.prove import Examined

EXAMPLES = """examples:
  zombiescope prove ./before ./after                          the root causes of the first must be gone in the second
  zombiescope prove ./before ./after --cured unit:ecs.service
  zombiescope prove ./before ./after --format json

exit codes: 0 proved, 1 not proved, 2 usage, 3 cannot tell
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="RECORDING_BEFORE")
    parser.add_argument("after", metavar="RECORDING_AFTER")
    parser.add_argument(
        "--cured", action="append", default=[], metavar="FINDING", help="a sign or a subject; repeatable [root causes]"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="[text]")


def run(args: argparse.Namespace) -> int:
    from zombiescope.cli import _proof
    from zombiescope.treatment.prove import prove

    before, after = _examined(args.before), _examined(args.after)
    if after.timeline.span.start < before.timeline.span.end:
        raise UserError(f"{args.after} began before {args.before} had ended: the recording from before comes first")
    cured = _cured(before, args.cured)
    proof = prove(before, after, cured)
    if args.format == "json":
        json.dump(_proof.as_json(proof), sys.stdout, indent=1)
        print()
    else:
        _proof.write_text(proof, sys.stdout)
    return _proof.EXIT[proof.state]


def _cured(before: Examined, wanted: list[str]) -> list[Finding]:
    found = before.case.findings if wanted else before.case.root_causes
    cured = [it for it in found if not wanted or {it.sign, it.subject, it.subject.partition(":")[2]} & set(wanted)]
    if not cured:
        there = ", ".join(sorted({f"{it.sign} of {harmless(it.subject)}" for it in before.case.findings})) or "nothing"
        raise UserError(f"there was nothing to cure before: found was {there}")
    return cured


def _examined(folder: str) -> Examined:
    from zombiescope.diagnosis.examine import examine
    from zombiescope.treatment.prove import Examined

    timeline, node, kernel = recorded(folder)
    return Examined(examine(timeline, node=node, kernel=kernel), timeline)
