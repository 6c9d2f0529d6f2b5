"""Plan a cure for what starves this node; with --apply carry it out, with --prove show that it worked.

Without --apply nothing is changed: the plan is shown, with every command and its risk. With it each step is written to
a ledger before it is done, the first failure ends it, and --undo takes all of it back.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from zombiescope.cli._arguments import FOLDER, complete
from zombiescope.cli._knowledge import add_knowledge, use_knowledge
from zombiescope.cli._looking import hertz, look, name_of, recorded, seconds
from zombiescope.core import Host, Plan, Unreadable, UserError, harmless
from zombiescope.core.errors import BLIND, CLEAR, FOUND

if TYPE_CHECKING:
    from zombiescope.treatment.apply import Machine
    from zombiescope.treatment.ledger import Fix, Ledger
    from zombiescope.treatment.prove import Examined, Proof

EXAMPLES = """examples:
  zombiescope fix                              what would be done about the root causes; changes nothing
  zombiescope fix unit:ecs.service             about one of them
  zombiescope fix --apply --prove 1            do it, then look for a minute whether it helped
  zombiescope fix --list                       what was done on this node, when, by whom
  zombiescope fix --undo 3                     put back what fix 3 has changed, byte for byte
  zombiescope fix --recording ./rec            the plan for another node, from its recording

exit codes: 0 nothing to fix, or done (and proved); 1 there is a plan, or the cure is not proved; 2 refused or failed;
3 blind: nothing was found but not all could be seen, or whether it helped could not be told
"""
LONGEST = 24 * 60.0  # minutes


def minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes up to {LONGEST:.0f}")
    return value


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("finding", nargs="?", default="", metavar="FINDING", help="a sign, a subject or a remedy")
    parser.add_argument("--apply", action="store_true", help="carry the plan out (root)")
    parser.add_argument(
        "--prove",
        type=minutes,
        nargs="?",
        const=10.0,
        metavar="MINUTES",
        help="after --apply, look so long whether it helped [10]",
    )
    parser.add_argument("--undo", metavar="ID", help="put back what a fix has changed")
    parser.add_argument("--resume", metavar="ID", help="go on with a fix that was interrupted")
    parser.add_argument("--list", action="store_true", help="what was done on this node")
    parser.add_argument("--allow-disruptive", action="store_true", help="also steps that disrupt the node's work")
    parser.add_argument(
        "--force-essential", action="append", default=[], metavar="UNIT", help="fix this unit though it is essential"
    )
    parser.add_argument("--force", action="store_true", help="with --undo: also what others have changed since")
    parser.add_argument("--recording", metavar="DIR", help="plan from a recording; nothing can be applied then")
    parser.add_argument("--seconds", type=seconds, default=10.0, metavar="N", help="how long to look before [10]")
    parser.add_argument("--hz", type=hertz, default=99, metavar="F", help="stacks a second on each core [99]")
    parser.add_argument(
        "--ledger", default="", metavar="DIR", help="where fixes are written down [/var/lib/zombiescope]"
    )
    parser.add_argument("--set", action="append", default=[], metavar="MEMBER.CONST=VALUE", help="another threshold")
    add_knowledge(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="[text]")
    complete(parser, finding=("signs", "remedies"), recording=FOLDER, ledger=FOLDER)


def run(args: argparse.Namespace) -> int:
    from zombiescope.audit.systemd import system_of
    from zombiescope.treatment.apply import Machine, resume, undo
    from zombiescope.treatment.ledger import Ledger

    if args.prove is not None and not args.apply:
        raise UserError("--prove shows whether --apply helped: it needs --apply (see also `zombiescope prove`)")
    use_knowledge(args)
    ledger, machine = Ledger(args.ledger), Machine(Host(), system_of(Host()))
    if args.list:
        return _list(ledger, args.format)
    for act, identity in ((undo, args.undo), (resume, args.resume)):
        if identity:
            _needs_root("nothing was changed")
            fix = act(identity, machine, ledger, _tell, **({"force": args.force} if act is undo else {}))
            print(f"fix {fix.id}: {fix.state}")
            return CLEAR
    return _plan(args, ledger, machine)


def _plan(args: argparse.Namespace, ledger: Ledger, machine: Machine) -> int:
    from zombiescope.cli import _plans, _proof

    before = _examined(args)
    if args.finding and (earlier := _cured_before(before, args.finding, ledger)):
        print(f"nothing of it is found any more: fix {earlier} was made for it")
        return CLEAR
    plans = _plans.chosen(before.case, args.finding, machine)
    refused = {}
    for plan in plans:
        why = _plans.refusal(plan, before.case, machine, args.force_essential, args.allow_disruptive)
        if why and not plan.advice:
            refused[plan.name] = why
    others = [plan for plan in before.case.plans if plan not in plans] if not args.finding else []
    told: dict[str, Any] = {"plans": [_plans.as_json(plan, machine, refused.get(plan.name, "")) for plan in plans]}
    if args.format == "text":
        _plans.write_text(plans, others, machine, refused, sys.stdout)
    if not args.apply or not plans:
        code = _dry(before, plans, args)
    else:
        told["fixes"] = [_told(fix) for fix in _applied(plans, refused, args, ledger, machine)]
        code = CLEAR
        if args.prove is not None and told["fixes"]:
            proof = _proved(before, [plan for plan in plans if not plan.advice], args)
            told["proof"], code = _proof.as_json(proof), _proof.EXIT[proof.state]
            if args.format == "text":
                _proof.write_text(proof, sys.stdout)
    if args.format == "json":
        json.dump(told, sys.stdout, indent=1)
        print()
    return code


def _cured_before(before: Examined, wanted: str, ledger: Ledger) -> str:
    """The fix that was made for it, if it is gone now: to ask for a cure twice is no mistake."""
    from zombiescope.cli._plans import names_of

    if any(wanted in names_of(plan.name, plan.cures.sign, plan.cures.subject) for plan in before.case.plans):
        return ""
    made = [(fix, fix.plan["cures"]) for fix in ledger.fixes() if fix.state == "finished"]
    found = [fix.id for fix, cure in made if wanted in names_of(fix.plan["name"], cure["sign"], cure["subject"])]
    return found[-1] if found else ""


def _dry(before: Examined, plans: list[Plan], args: argparse.Namespace) -> int:
    if any(not plan.advice for plan in plans):
        print("nothing was changed; --apply carries it out", file=sys.stderr)
    if before.case.findings:
        if not plans:
            print("found something, but no remedy is known for it: see `zombiescope diagnose`", file=sys.stderr)
        return FOUND
    unseen = [verdict.sign for verdict in before.case.verdicts if verdict.state != "clear"]
    if args.format == "text":
        print("nothing found: nothing to fix")
    if unseen:
        print(f"but {len(unseen)} signs could not be seen: {', '.join(unseen)}", file=sys.stderr)
    return BLIND if unseen else CLEAR


def _applied(
    plans: list[Plan], refused: dict[str, str], args: argparse.Namespace, ledger: Ledger, machine: Machine
) -> list[Fix]:
    from zombiescope.treatment.apply import apply

    if args.recording:
        raise UserError("a recording cannot be cured: run it on the node, without --recording")
    acting = [plan for plan in plans if not plan.advice]
    if not acting:
        raise UserError("nothing to apply: what is left is advice")
    if refused:
        raise UserError("refused, nothing was changed: " + "; ".join(f"{name}: {why}" for name, why in refused.items()))
    _needs_root("the plan is shown above, nothing was changed")
    fixes = []
    for plan in acting:
        known = {fix.id for fix in ledger.fixes()}
        try:
            fixes.append(apply(plan, machine, ledger, _tell, disruptive=args.allow_disruptive))
        except (Unreadable, KeyboardInterrupt) as error:
            begun = [fix.id for fix in ledger.fixes() if fix.id not in known]
            if not begun:
                raise
            ways = f"--resume {begun[-1]} goes on, --undo {begun[-1]} takes it back"
            raise UserError(f"fix {begun[-1]} stopped: {harmless(str(error)) or 'interrupted'}; {ways}") from error
        undoable = any(step.unit or step.keeps or step.undo for step in plan.steps)
        back = f"--undo {fixes[-1].id} takes it back" if undoable else "it leaves nothing to undo"
        print(f"fix {fixes[-1].id} ({plan.name}): done; {back}", file=sys.stderr)
    return fixes


def _proved(before: Examined, plans: list[Plan], args: argparse.Namespace) -> Proof:
    from zombiescope.diagnosis.examine import examine
    from zombiescope.treatment.prove import Examined, prove

    timeline = look(Host(), args.prove * 60, hz=args.hz)
    case = examine(timeline, node=before.case.node, kernel=before.case.kernel, settings=before.case.settings)
    signs = {sign for plan in plans for sign in plan.proof}
    return prove(before, Examined(case, timeline), [plan.cures for plan in plans], signs)


def _examined(args: argparse.Namespace) -> Examined:
    from zombiescope.diagnosis.examine import examine
    from zombiescope.diagnosis.settings import override
    from zombiescope.treatment.prove import Examined

    settings = override(args.set)
    host = Host()
    timeline, node, kernel = (
        recorded(args.recording) if args.recording else (look(host, args.seconds, hz=args.hz), *name_of(host))
    )
    return Examined(examine(timeline, node=node, kernel=kernel, settings=settings), timeline)


def _needs_root(rest: str) -> None:
    if os.geteuid() != 0:
        raise UserError(f"this needs root: run it as root, or by sudo; {rest}")


def _list(ledger: Ledger, style: str) -> int:
    fixes = [_told(fix) for fix in ledger.fixes()]
    if style == "json":
        json.dump(fixes, sys.stdout, indent=1)
        print()
        return CLEAR
    print("id\tstate\twhen\twho\tremedy\tfor")
    for fix in fixes:
        when = datetime.fromtimestamp(fix["at"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        print(fix["fix"], fix["state"], when, fix["who"], fix["remedy"], harmless(fix["subject"]), sep="\t")
    return CLEAR


def _told(fix: Fix) -> dict[str, Any]:
    first, steps = fix.events[0], fix.steps()
    return {
        "fix": fix.id,
        "state": fix.state,
        "at": first["at"],
        "who": first.get("who", {}).get("user", "?"),
        "remedy": fix.plan["name"],
        "subject": fix.plan["cures"]["subject"],
        "steps": [
            {
                "says": step["says"],
                "state": "done" if "done" in steps.get(number, {}) else "begun" if number in steps else "not begun",
                "said": steps.get(number, {}).get("done", {}).get("said", ""),
            }
            for number, step in enumerate(fix.plan["steps"])
        ],
    }


def _tell(line: str) -> None:
    print(harmless(line, most=2000), file=sys.stderr)
