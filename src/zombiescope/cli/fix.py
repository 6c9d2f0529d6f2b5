"""Show how to fix what starves this node; with --apply do it, with --prove check that it worked.

Without --apply nothing is changed: the plan is shown, with every command and its risk. With --apply each step is
written to a ledger before it runs, the first failure stops the fix, and --undo reverts all of it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from zombiescope.cli import _fixes
from zombiescope.cli._arguments import FOLDER, add_format, add_optional, add_repeatable, complete
from zombiescope.cli._knowledge import add_knowledge, use_knowledge
from zombiescope.cli._looking import add_hertz, add_seconds, duration, look, name_of, recorded
from zombiescope.cli._sample import add_sample, sample_folder
from zombiescope.core import Host, Plan, Unreadable, UserError, harmless
from zombiescope.outputs._exit_codes import BLIND, CLEAR, FOUND

if TYPE_CHECKING:
    from zombiescope.treatment.apply import Machine
    from zombiescope.treatment.ledger import Fix, Ledger
    from zombiescope.treatment.prove import Examined, Proof

EXAMPLES = """examples:
  zombiescope fix                              the plan for the root causes; changes nothing
  zombiescope fix unit:ecs.service             the plan for one finding
  zombiescope fix --apply --prove 10m          do it, then check for ten minutes that it worked
  zombiescope fix --list                       fixes applied on this node: when, by which user
  zombiescope fix --undo 3                     revert fix 3, byte for byte
  zombiescope fix --recording ./rec            the plan for another node, from its recording

exit codes: 0 nothing to fix, or done (and proved); 1 there is a plan, or the fix is not proved; 2 usage, refused or
failed; 3 blind: nothing found but not everything could be read, or the proof could not be decided
"""
LONGEST_PROOF = 7 * 24 * 60.0  # minutes: a fault that comes every other day must have come three times


def add_args(parser: argparse.ArgumentParser) -> None:
    add_optional(parser, "finding", "a sign, a subject, a unit or a remedy [the root causes]", default="")
    parser.add_argument("--apply", action="store_true", help="apply the plan (needs root)")
    parser.add_argument(
        "--prove",
        type=duration("minutes", LONGEST_PROOF),
        nargs="?",
        const=10.0,
        metavar="T",
        help="after --apply, check for this long that it worked: minutes, or 90s, 10m, 2h [10]",
    )
    parser.add_argument("--undo", metavar="ID", help="revert what a fix changed")
    parser.add_argument("--resume", metavar="ID", help="continue a fix, or a proof, that was interrupted")
    parser.add_argument("--abandon", metavar="ID", help="give up a fix that can neither go on nor back; needs --why")
    parser.add_argument("--why", default="", metavar="TEXT", help="with --abandon: the reason, kept in the ledger")
    parser.add_argument("--list", action="store_true", help="list the fixes applied on this node")
    parser.add_argument("--allow-disruptive", action="store_true", help="allow steps that disrupt the node's work")
    add_repeatable(parser, "--force-essential", "UNIT", "fix this unit even though it is essential; repeatable")
    parser.add_argument("--force", action="store_true", help="with --undo: also revert files that were changed since")
    parser.add_argument("--recording", metavar="DIR", help="plan from a recording; cannot be combined with --apply")
    add_sample(parser)
    add_seconds(parser, 10.0, "how long to record before planning: seconds, or 90s, 10m [10]")
    add_hertz(parser, 99, "stack samples per second on each core, 0 for none [99]")
    parser.add_argument(
        "--ledger", default="", metavar="DIR", help="folder of the ledger of fixes [/var/lib/zombiescope]"
    )
    parser.add_argument("--unattended", action="store_true", help=argparse.SUPPRESS)  # for the agent
    parser.add_argument("--host", help=argparse.SUPPRESS)  # so that it is refused with a reason
    add_repeatable(parser, "--set", "MEMBER.CONST=VALUE", "override a threshold; repeatable")
    add_format(parser, "text", "json")
    add_knowledge(parser)
    complete(parser, finding=("signs", "remedies"), recording=FOLDER, ledger=FOLDER)


def run(args: argparse.Namespace) -> int:
    from zombiescope.audit.systemd import system_of
    from zombiescope.treatment.apply import Machine, abandon, resume, undo
    from zombiescope.treatment.ledger import Ledger

    if args.host is not None:
        raise UserError("fix acts on the machine it runs on, not through --host: run it on the node itself")
    if args.prove is not None and not args.apply:
        raise UserError("--prove needs --apply; for two recordings use `zombiescope prove BEFORE AFTER`")
    if args.sample:
        args.recording = sample_folder(args.recording)
    use_knowledge(args)
    ledger, machine = Ledger(args.ledger), Machine(Host(), system_of(Host()))
    if args.recording:  # another node's: what it cannot say counts as in use there, whatever runs here
        machine = Machine(Host(args.recording, live=False), Host(args.recording, live=False))
    if args.list:
        return _fixes.write(ledger, args.format)
    if args.abandon:
        if not args.why.strip():
            raise UserError("--abandon needs --why TEXT: the reason is kept in the ledger")
        _needs_root("nothing was changed")
        print(f"fix {abandon(args.abandon, args.why, ledger).id}: abandoned; what it had changed stays changed")
        return CLEAR
    for act, identity in ((undo, args.undo), (resume, args.resume)):
        if identity:
            _needs_root("nothing was changed")
            if act is resume and _proof_was_killed(ledger, identity):
                return _resumed(ledger, identity, args.format)
            fix = act(identity, machine, ledger, _say, **({"force": args.force} if act is undo else {}))
            print(f"fix {fix.id}: {fix.state}")
            return CLEAR
    if args.prove is None or args.recording or os.geteuid() != 0:
        return _plan(args, ledger, machine, _examined(args), "")
    return _left_alone(args, ledger, machine)


def _left_alone(args: argparse.Namespace, ledger: Ledger, machine: Machine) -> int:
    """With --prove all is recorded to disk; the folder is kept if there is something to prove in it."""
    from zombiescope.cli import _proving
    from zombiescope.diagnosis.settings import override
    from zombiescope.treatment.proofs import new_folder, proof_of

    _proving.left_alone()
    folder = new_folder(ledger)
    try:
        before = _proving.record_before(folder, args.seconds, args.hz, override(args.set))
        return _plan(args, ledger, machine, before, folder)
    finally:
        if not any((proof_of(fix) or {}).get("folder") == folder for fix in ledger.fixes()):
            shutil.rmtree(folder, ignore_errors=True)


def _plan(args: argparse.Namespace, ledger: Ledger, machine: Machine, before: Examined, folder: str) -> int:
    from zombiescope.cli import _plans
    from zombiescope.outputs._offers import offers

    if args.finding and not args.recording and (earlier := _fixed_before(before, args.finding, ledger)):
        print(f"no longer found: fix {earlier} fixed it")
        return CLEAR
    plans = _plans.chosen(before.case, before.timeline, args.finding, machine, unattended=args.unattended)
    refused = {}
    for plan in plans:
        why = _plans.refusal(plan, before.case, machine, args.force_essential, args.allow_disruptive)
        if why and not plan.advice:
            refused[plan.name] = why
    others = [plan for plan in offers(before.case) if plan not in plans] if not args.finding else []
    shown: dict[str, Any] = {"plans": [_plans.as_json(plan, machine, refused.get(plan.name, "")) for plan in plans]}
    if args.format == "text":
        _plans.write_text(plans, others, machine, refused, args.recording or "", sys.stdout)
    if not args.apply or not plans:
        code = _dry(before, plans, args)
    else:
        fixes = _applied(plans, refused, args, ledger, machine)
        shown["fixes"], code = [_fixes.as_json(fix) for fix in fixes], CLEAR
        if folder and fixes:
            proof = _proved(before, [plan for plan in plans if not plan.advice], fixes, args, ledger, folder)
            code = _shown(proof, shown, args.format)
    if args.format == "json":
        json.dump(shown, sys.stdout, indent=1)
        print()
    return code


def _shown(proof: Proof, shown: dict[str, Any], style: str) -> int:
    from zombiescope.cli import _proof

    shown["proof"] = _proof.as_json(proof)
    if style == "text":
        _proof.write_text(proof, sys.stdout)
    return _proof.EXIT[proof.state]


def _proof_was_killed(ledger: Ledger, identity: str) -> bool:
    from zombiescope.treatment.proofs import KILLED, proof_of

    fix = ledger.fix(identity)
    return fix.state == "finished" and (proof_of(fix) or {}).get("state") == KILLED


def _resumed(ledger: Ledger, identity: str, style: str) -> int:
    from zombiescope.cli import _proving

    _proving.left_alone()
    shown: dict[str, Any] = {}
    code = _shown(_proving.resume(ledger, ledger.fix(identity)), shown, style)
    if style == "json":
        json.dump(shown, sys.stdout, indent=1)
        print()
    return code


def _fixed_before(before: Examined, wanted: str, ledger: Ledger) -> str:
    """The fix that was applied for it, if it is gone now: asking twice for a fix is not a mistake."""
    from zombiescope.cli._plans import names_of

    if any(wanted in names_of(plan.name, plan.cures.sign, plan.cures.subject) for plan in before.case.plans):
        return ""
    made = [(fix, fix.plan["cures"]) for fix in ledger.fixes() if fix.state == "finished"]
    found = [fix.id for fix, cure in made if wanted in names_of(fix.plan["name"], cure["sign"], cure["subject"])]
    return found[-1] if found else ""


def _dry(before: Examined, plans: list[Plan], args: argparse.Namespace) -> int:
    if any(not plan.advice for plan in plans):
        how = "to do it, run `zombiescope fix --apply` on that node" if args.recording else "add --apply to do it"
        print(f"nothing was changed; {how}", file=sys.stderr)
    if before.case.problems or plans:
        if not plans:
            print("no remedy is known for what was found: see `zombiescope diagnose`", file=sys.stderr)
        return FOUND
    unseen = [verdict.sign for verdict in before.case.verdicts if verdict.state not in ("clear", "found")]
    unseen += [it.sign for it in before.case.unsure]
    if args.format == "text":
        print(
            "nothing found that harms anybody: nothing to fix"
            if before.case.findings
            else "nothing found: nothing to fix"
        )
    if unseen:
        print(f"blind: {len(unseen)} signs could not be checked: {', '.join(unseen)}", file=sys.stderr)
    return BLIND if unseen else CLEAR


def _applied(
    plans: list[Plan], refused: dict[str, str], args: argparse.Namespace, ledger: Ledger, machine: Machine
) -> list[Fix]:
    from zombiescope.treatment.apply import apply

    if args.recording:
        raise UserError("--apply cannot fix a recording: run it on the node, without --recording")
    acting = [plan for plan in plans if not plan.advice]
    if not acting:
        raise UserError("nothing to apply: the plan is advice, without commands")
    if refused:
        raise UserError("refused, nothing was changed: " + "; ".join(f"{name}: {why}" for name, why in refused.items()))
    _needs_root("the plan is shown above, and nothing was changed")
    fixes = []
    for plan in acting:
        known = {fix.id for fix in ledger.fixes()}
        try:
            fixes.append(apply(plan, machine, ledger, _say, disruptive=args.allow_disruptive))
        except (Unreadable, UserError, KeyboardInterrupt) as error:
            begun = [fix.id for fix in ledger.fixes() if fix.id not in known]
            if isinstance(error, KeyboardInterrupt) and not (begun or fixes):
                raise
            raise UserError(_stopped(plan, begun, fixes, harmless(str(error), most=1000) or "interrupted")) from error
        undoable = any(step.unit or step.keeps or step.undo for step in plan.steps)
        back = f"--undo {fixes[-1].id} reverts it" if undoable else "nothing to undo"
        _say(f"fix {fixes[-1].id} ({plan.name}): done; {back}")
    return fixes


def _stopped(plan: Plan, begun: list[str], done: list[Fix], why: str) -> str:
    """What was changed by the plan that stopped, and by those before it."""
    if begun:
        return f"fix {begun[-1]} stopped: {why}; --resume {begun[-1]} continues it, --undo {begun[-1]} reverts it"
    stay = [f"fix {fix.id} ({fix.plan['name']}) was done before and stays; --undo {fix.id} reverts it" for fix in done]
    return "; ".join([f"{plan.name} was not begun: {why}", *(stay or ["nothing was changed"])])


def _proved(
    before: Examined, plans: list[Plan], fixes: list[Fix], args: argparse.Namespace, ledger: Ledger, folder: str
) -> Proof:
    from zombiescope.cli import _proving

    signs = sorted({sign for plan in plans for sign in plan.proof})
    how = {"fixes": [fix.id for fix in fixes], "window": args.prove * 60, "hz": args.hz}
    return _proving.prove_fixes(ledger, folder, before, [plan.cures for plan in plans], signs, **how)


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
        raise UserError(f"this needs root: run it as root or with sudo; {rest}")


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # a terminal that has gone must not stop a fix half-way
        print(harmless(line, most=2000), file=sys.stderr)
