"""Whether a fix worked, from two recordings: one from before it, one from after.

The same checks as `fix --apply --prove`: what was fixed and what followed from it is clear on every subject, dying
cgroups do not grow, no NIC has reset, cgroup statistics are read quickly, no new symptom lacks a cause; and the second
recording has no gaps, a comparable load, and lasts three times as long as the fault took to come again.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from zombiescope.cli._arguments import FOLDER, add_format, add_repeatable, complete
from zombiescope.cli._looking import recorded
from zombiescope.core import Finding, UserError, harmless

if TYPE_CHECKING:
    from zombiescope.treatment.prove import Examined

EXAMPLES = """examples:
  zombiescope prove ./before ./after                          the root causes of the first must be clear in the second
  zombiescope prove ./before ./after --cured unit:ecs.service
  zombiescope prove ./before ./after --format json

exit codes: 0 proved, 1 not proved, 2 usage, 3 blind: could not be decided
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="RECORDING_BEFORE", help="recorded before the fix")
    parser.add_argument("after", metavar="RECORDING_AFTER", help="recorded after it")
    add_repeatable(parser, "--cured", "FINDING", "a sign or subject that was fixed; repeatable [root causes]")
    add_format(parser, "text", "json")
    complete(parser, before=FOLDER, after=FOLDER, cured="signs")


def run(args: argparse.Namespace) -> int:
    from zombiescope.cli import _proof
    from zombiescope.treatment.prove import prove

    before, after = _examined(args.before), _examined(args.after)
    if after.timeline.span.start < before.timeline.span.end:
        raise UserError(f"{args.after} begins before {args.before} ends: give the recording from before the fix first")
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
        missing = f"no {', '.join(map(harmless, wanted))}" if wanted else "no root cause"
        raise UserError(f"nothing to prove: {missing} in the first recording; findings there: {there}")
    return cured


def _examined(folder: str) -> Examined:
    from zombiescope.diagnosis.examine import examine
    from zombiescope.treatment.prove import Examined

    timeline, node, kernel = recorded(folder)
    return Examined(examine(timeline, node=node, kernel=kernel), timeline)
