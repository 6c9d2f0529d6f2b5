"""Apply a plan step by step, and undo it: the only file that changes the machine.

Each step is written to the ledger before it runs, with the state of what it will change. The first failure stops the
fix. So after a crash at any moment the ledger says which step was running, and both ways are open: resume (running a
step twice does no more than once) or undo (files are restored byte for byte, a unit that ran is started again).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from zombiescope.core import Host, Plan, Step, Unreadable, UserError
from zombiescope.core.commands import command
from zombiescope.treatment.kept import ABSENT, State, changed, kept, link_farm, restoring, unit_files
from zombiescope.treatment.ledger import Fix, Ledger, who
from zombiescope.treatment.ledger_events import Event
from zombiescope.treatment.own_steps import refuse_forged, refuse_unknown, step_of
from zombiescope.treatment.reach import disabled_with, may_have_changed
from zombiescope.treatment.ready import refuse_unready

PATIENCE = 600.0  # seconds for a step: a starved node is slow, and a purge has its own time limits
EXITS = 5.0  # seconds for a unit that is exiting: a crash loop passes through it in milliseconds
MOST_SAID = 20_000  # characters of a command's output that are kept
_RUNS = ("active", "activating", "reloading")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Machine:
    """Where steps run: the node, and the system whose units are meant, which is another one if we run in a pod."""

    node: Host
    units: Host

    def of(self, step: Step) -> Host:
        return self.units if step.unit else self.node


def shown(machine: Machine, step: Step) -> str:
    """The command as it will run, to be pasted into a shell."""
    return command(*machine.of(step).enter, *step.argv, stdin=step.stdin)


def apply(plan: Plan, machine: Machine, ledger: Ledger, say: Say, *, disruptive: bool = False) -> Fix:
    """Run the steps of a plan; disruptive ones only if allowed. Refusals are decided before this."""
    steps = [step for step in plan.steps if step.argv and (disruptive or plan.risk_of(step) == "safe")]
    with ledger.locked():
        unfinished = [fix.id for fix in ledger.fixes() if fix.state in ("interrupted", "failed")]
        if unfinished:
            raise UserError(
                f"fix {unfinished[-1]} is unfinished: first run --resume {unfinished[-1]} or --undo {unfinished[-1]}; "
                f"if neither works: --abandon {unfinished[-1]} --why TEXT"
            )
        refuse_unknown(plan, steps)
        for step in steps:
            refuse_unready(step, machine.of(step), _kept(machine.of(step), step))
        identity = ledger.next_id()
        ledger.write(identity, "planned", plan=_written(plan, steps), who=who())
        return _go_on(identity, machine, ledger, say)


def resume(identity: str, machine: Machine, ledger: Ledger, say: Say) -> Fix:
    """Run the steps that are not done yet; the one that was running is run again."""
    ledger.fix(identity)  # an unknown id must not create the ledger's folder
    with ledger.locked():
        fix = ledger.fix(identity)
        if fix.state in ("finished", "undone", "abandoned"):
            raise UserError(f"fix {identity} is {fix.state}: nothing to resume")
        if any(event["event"] == "undoing" for event in fix.events):
            raise UserError(f"fix {identity} was being undone: continue with --undo {identity}")
        refuse_forged(fix, ledger.path)
        ledger.write(identity, "resumed", who=who())
        return _go_on(identity, machine, ledger, say)


def undo(identity: str, machine: Machine, ledger: Ledger, say: Say, *, force: bool = False) -> Fix:
    """Restore the state before the fix, the last step first. What others changed since is not overwritten."""
    ledger.fix(identity)
    with ledger.locked():
        fix = ledger.fix(identity)
        if fix.state == "undone":
            raise UserError(f"fix {identity} is already undone")
        refuse_forged(fix, ledger.path)
        _refuse_later(fix, ledger)
        begun = fix.steps()
        if not force:
            _refuse_others(fix, begun, machine)
        ledger.write(identity, "undoing all", who=who())
        for number in sorted(begun, reverse=True):
            step = step_of(fix, number)
            say(f"undoing step {number + 1}: {step.says}")
            try:
                _undo_step(fix.id, number, step, begun[number], machine, ledger, say)
            except Unreadable as error:
                _note_failure(ledger, identity, number, error)
                raise
        _start_again(fix, machine, say)
        ledger.write(identity, "undone")
        return ledger.fix(identity)


def abandon(identity: str, why: str, ledger: Ledger) -> Fix:
    """Give up a fix that can neither go on nor back, so that it no longer blocks others. Nothing is changed."""
    ledger.fix(identity)
    with ledger.locked():
        state = ledger.fix(identity).state
        if state not in ("interrupted", "failed"):
            raise UserError(f"fix {identity} is {state}: nothing to abandon")
        ledger.write(identity, "abandoned", who=who(), why=why)
        return ledger.fix(identity)


def _go_on(identity: str, machine: Machine, ledger: Ledger, say: Say) -> Fix:
    fix = ledger.fix(identity)
    done = {number for number, events in fix.steps().items() if "done" in events}
    for number in range(len(fix.plan["steps"])):
        if number in done:
            continue
        step = step_of(fix, number)
        say(f"step {number + 1} of {len(fix.plan['steps'])}: {step.says}")
        host = machine.of(step)
        try:
            files = _kept(host, step)
            before = {"files": files, "runs": _runs(host, step), "disables": disabled_with(host, step, files)}
            ledger.write(identity, "begins", step=number, before=before, command=shown(machine, step))
            said = host.act(step.argv, stdin=step.stdin.encode("utf-8", "surrogateescape"), timeout=PATIENCE)
        except Unreadable as error:
            _note_failure(ledger, identity, number, error)
            raise
        now = _kept(host, step)
        ours = changed(files, now)
        if begun := fix.steps().get(number):
            # It was begun before and has run again: its first state counts, without what others changed in between.
            earlier = begun["begins"]["before"]
            ours = may_have_changed(step, earlier["files"], now, earlier.get("disables"))[0]
        after = {path: now.get(path, ABSENT) for path in ours}
        ledger.write(identity, "done", step=number, after={"files": after}, said=said[:MOST_SAID])
        for line in said.strip().splitlines():
            say(f"  {line}")
    ledger.write(identity, "finished")
    return ledger.fix(identity)


def _note_failure(ledger: Ledger, identity: str, number: int, error: Unreadable) -> None:
    """Where that cannot be written either, the fix counts as interrupted, and why it failed is what is said."""
    with suppress(Unreadable, UserError):
        ledger.write(identity, "failed", step=number, why=str(error))


def _undo_step(
    identity: str, number: int, step: Step, events: dict[str, Event], machine: Machine, ledger: Ledger, say: Say
) -> None:
    host, began = machine.of(step), events["begins"]["before"]
    before, now = began["files"], _kept(host, step)
    # Only what the step changed, or can have changed if it was interrupted: others may have enabled units since.
    ours, unknown = may_have_changed(step, before, now, began.get("disables"))
    if "done" in events:
        ours, unknown = _changed_by(events), []
    for path in unknown:
        link = command("ln", "-s", "--", before[path]["to"], path)
        say(f"  left alone, because others may have removed it: {path}; if not: {link}")
    commands = restoring({it: before.get(it, ABSENT) for it in ours}, {it: now.get(it, ABSENT) for it in ours})
    ledger.write(identity, "undoing", step=number, commands=[command(*argv) for argv, _ in commands])
    for argv, stdin in commands:
        say(f"  {command(*argv)}")
        host.act(argv, stdin=stdin)
    if step.undo:
        say(f"  {command(*step.undo)}")
        host.act(step.undo)
    if step.unit and commands:
        host.act(("systemctl", "daemon-reload"))
    ledger.write(identity, "step undone", step=number)


def _start_again(fix: Fix, machine: Machine, say: Say) -> None:
    """Start a unit that ran before the first step, or was about to; systemd continues from there.

    Also if its steps were undone by an earlier `--undo`, which was killed before it came to this.
    """
    for event in fix.events:
        step = step_of(fix, event["step"]) if event["event"] == "begins" else None
        if step is None or step.unit.endswith(".scope"):
            continue  # only its creator can start a scope, and only empty ones are stopped
        if step.unit and event["before"]["runs"].split(" ")[0] in _RUNS:
            if _runs(machine.units, step).split(" ")[0] not in _RUNS:
                start = ("systemctl", "start", "--no-block", "--", step.unit)
                say(f"  {command(*start)}")
                machine.units.act(start)
            return


def _refuse_later(fix: Fix, ledger: Ledger) -> None:
    """Two fixes of one unit are undone in reverse order, or the older one's files would overwrite the newer's."""
    ours = _touched(fix)
    for later in ledger.fixes():
        if int(later.id) > int(fix.id) and later.state not in ("undone", "abandoned") and ours & _touched(later):
            raise UserError(f"fix {later.id} is newer and changed the same: run --undo {later.id} first")


def _touched(fix: Fix) -> set[str]:
    return {word for step in fix.plan["steps"] for word in (step["unit"], *step["keeps"]) if word}


def _refuse_others(fix: Fix, begun: dict[int, dict[str, Event]], machine: Machine) -> None:
    last: dict[str, Any] = {}
    for number in sorted(begun):
        events = begun[number]
        if "done" not in events or "undoing" in events:
            return  # interrupted in the middle: what is there now may be ours
        last |= {path: (number, events["done"]["after"]["files"][path]) for path in _changed_by(events)}
    for path, (number, state) in last.items():
        now = kept(machine.of(step_of(fix, number)), [path])
        if "folder" not in (state["kind"], now[path]["kind"]) and changed({path: state}, {path: now[path]}):
            raise UserError(f"{path} was changed since the fix: add --force to restore it all the same")


def _changed_by(events: dict[str, Event]) -> list[str]:
    before, after = events["begins"]["before"]["files"], events["done"]["after"]["files"]
    return [path for path, state in after.items() if state != before.get(path, ABSENT)]


def _kept(host: Host, step: Step) -> dict[str, State]:
    """The state of all that a step may change. Who stops a scope changes no file."""
    files = kept(host, [*(unit_files(step.unit) if step.unit else ()), *step.keeps])
    return files | (link_farm(host) if step.unit and not step.unit.endswith(".scope") else {})


def _runs(host: Host, step: Step) -> str:
    """Whether the unit runs: "activating auto-restart". One that is just exiting is waited for: it may start again."""
    if not step.unit:
        return ""
    deadline = time.monotonic() + EXITS
    while True:
        shown = host.run("systemctl", "show", "--property=ActiveState", "--property=SubState", "--", step.unit)
        values = dict(line.partition("=")[::2] for line in shown.splitlines())
        if values.get("ActiveState") != "deactivating" or time.monotonic() > deadline:
            return f"{values.get('ActiveState', '')} {values.get('SubState', '')}"
        time.sleep(0.05)


def _written(plan: Plan, steps: list[Step]) -> Event:
    cured = {"sign": plan.cures.sign, "subject": plan.cures.subject, "says": plan.cures.says}
    rest = {"name": plan.name, "risk": plan.risk, "proof": list(plan.proof)}
    return {"cures": cured, **rest, "steps": [dataclasses.asdict(step) for step in steps]}
