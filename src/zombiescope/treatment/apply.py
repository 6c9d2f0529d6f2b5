"""Do what a plan says, step by step, and take it back: the only file that changes the machine.

Each step is written to the ledger, with what it will change as it is now, before it is done. The first that fails ends
it. So after a crash at any moment the ledger tells which step was at work, and both ways are open: on (a step that is
done twice does no more than once) or back (files are put back byte for byte, a unit that ran is started again).
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zombiescope.core import Host, Plan, Step, Unreadable, UserError
from zombiescope.treatment.kept import changed, kept, restoring, unit_files
from zombiescope.treatment.ledger import Event, Fix, Ledger, who

PATIENCE = 600.0  # seconds for a step: a node that starves is slow, and a purge has budgets of its own
MOST_SAID = 20_000  # characters of a command's answer that are kept
_RUNS = ("active", "activating", "reloading")
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Machine:
    """Where steps act: the node, and the system whose units are meant: another one where we run in a pod."""

    node: Host
    units: Host

    def of(self, step: Step) -> Host:
        return self.units if step.unit else self.node


def shown(machine: Machine, step: Step) -> str:
    """The command as it will be run, to be pasted into a shell."""
    words = shlex.join((*machine.of(step).enter, *step.argv))
    return f"{words} <<'END'\n{step.stdin.rstrip()}\nEND" if step.stdin else words


def apply(plan: Plan, machine: Machine, ledger: Ledger, tell: Tell, *, disruptive: bool = False) -> Fix:
    """Do the steps of a plan; those that disrupt only if that is allowed. What is refused is refused before."""
    steps = [step for step in plan.steps if step.argv and (disruptive or plan.risk_of(step) == "safe")]
    with ledger.locked():
        unfinished = [fix.id for fix in ledger.fixes() if fix.state in ("interrupted", "failed")]
        if unfinished:
            raise UserError(f"fix {unfinished[-1]} did not come to its end: first --resume or --undo {unfinished[-1]}")
        identity = ledger.next_id()
        ledger.write(identity, "planned", plan=_written(plan, steps), who=who())
        return _go_on(identity, machine, ledger, tell)


def resume(identity: str, machine: Machine, ledger: Ledger, tell: Tell) -> Fix:
    """The steps that are not done yet; the one that was at work is done again."""
    ledger.fix(identity)  # one that there is not leaves no trace of having been asked for
    with ledger.locked():
        fix = ledger.fix(identity)
        if fix.state in ("finished", "undone"):
            raise UserError(f"fix {identity} is {fix.state}: there is nothing to resume")
        if any(event["event"] == "undoing" for event in fix.events):
            raise UserError(f"fix {identity} was being undone: go on with --undo {identity}")
        ledger.write(identity, "resumed", who=who())
        return _go_on(identity, machine, ledger, tell)


def undo(identity: str, machine: Machine, ledger: Ledger, tell: Tell, *, force: bool = False) -> Fix:
    """Everything as it was before, the last step first. What others have changed since is not overwritten."""
    ledger.fix(identity)
    with ledger.locked():
        fix = ledger.fix(identity)
        if fix.state == "undone":
            raise UserError(f"fix {identity} is undone already")
        _refuse_later(fix, ledger)
        begun = fix.steps()
        if not force:
            _refuse_others(fix, begun, machine)
        ledger.write(identity, "undoing all", who=who())
        for number in sorted(begun, reverse=True):
            step = _step(fix, number)
            tell(f"undoing step {number + 1}: {step.says}")
            try:
                _undo_step(fix.id, number, step, begun[number], machine, ledger, tell)
            except Unreadable as error:
                ledger.write(identity, "failed", step=number, why=str(error))
                raise
        _start_again(begun, fix, machine, tell)
        ledger.write(identity, "undone")
        return ledger.fix(identity)


def _go_on(identity: str, machine: Machine, ledger: Ledger, tell: Tell) -> Fix:
    fix = ledger.fix(identity)
    done = {number for number, events in fix.steps().items() if "done" in events}
    for number in range(len(fix.plan["steps"])):
        if number in done:
            continue
        step = _step(fix, number)
        tell(f"step {number + 1} of {len(fix.plan['steps'])}: {step.says}")
        host = machine.of(step)
        paths = _paths(host, step)
        before = {"files": kept(host, paths), "runs": _runs(host, step)}
        ledger.write(identity, "begins", step=number, before=before, command=shown(machine, step))
        try:
            said = host.act(step.argv, stdin=step.stdin.encode("utf-8", "surrogateescape"), timeout=PATIENCE)
        except Unreadable as error:
            ledger.write(identity, "failed", step=number, why=str(error))
            raise
        after = {"files": kept(host, dict.fromkeys([*paths, *_paths(host, step)]))}
        ledger.write(identity, "done", step=number, after=after, said=said[:MOST_SAID])
        for line in said.strip().splitlines():
            tell(f"  {line}")
    ledger.write(identity, "finished")
    return ledger.fix(identity)


def _undo_step(
    identity: str, number: int, step: Step, events: dict[str, Event], machine: Machine, ledger: Ledger, tell: Tell
) -> None:
    host, before = machine.of(step), events["begins"]["before"]["files"]
    now = kept(host, dict.fromkeys([*before, *_paths(host, step)]))
    commands = restoring(before, now)
    ledger.write(identity, "undoing", step=number, commands=[shlex.join(argv) for argv, _ in commands])
    for argv, stdin in commands:
        tell(f"  {shlex.join(argv)}")
        host.act(argv, stdin=stdin)
    if step.undo:
        tell(f"  {shlex.join(step.undo)}")
        host.act(step.undo)
    if step.unit and commands:
        host.act(("systemctl", "daemon-reload"))
    ledger.write(identity, "step undone", step=number)


def _start_again(begun: dict[int, dict[str, Event]], fix: Fix, machine: Machine, tell: Tell) -> None:
    """A unit that ran before the first step, or was about to, is started; systemd goes on from there."""
    for number in sorted(begun):
        step, runs = _step(fix, number), begun[number]["begins"]["before"]["runs"]
        if step.unit.endswith(".scope"):
            continue  # nobody can start one but who made it, and only empty ones are stopped
        if step.unit and runs.split(" ")[0] in _RUNS:
            now = _runs(machine.units, step).split(" ")[0]
            if now not in _RUNS:
                tell(f"  systemctl start --no-block {step.unit}")
                machine.units.act(("systemctl", "start", "--no-block", "--", step.unit))
            return


def _refuse_later(fix: Fix, ledger: Ledger) -> None:
    """Two fixes of one unit are undone in the opposite order, or the older one's memory would overwrite the newer."""
    ours = _touched(fix)
    for later in ledger.fixes():
        if int(later.id) > int(fix.id) and later.state != "undone" and ours & _touched(later):
            raise UserError(f"fix {later.id} came later and changed the same: undo that one first")


def _touched(fix: Fix) -> set[str]:
    return {word for step in fix.plan["steps"] for word in (step["unit"], *step["keeps"]) if word}


def _refuse_others(fix: Fix, begun: dict[int, dict[str, Event]], machine: Machine) -> None:
    last: dict[str, Any] = {}
    for number in sorted(begun):
        events = begun[number]
        if "done" not in events or "undoing" in events:
            return  # torn in the middle: what is there now may be our own
        last |= {path: (number, state) for path, state in events["done"]["after"]["files"].items()}
    for path, (number, state) in last.items():
        now = kept(machine.of(_step(fix, number)), [path])
        if changed({path: state}, {path: now[path]}):
            raise UserError(f"{path} was changed since, by somebody else: --force puts it back all the same")


def _paths(host: Host, step: Step) -> list[str]:
    return [*(unit_files(host, step.unit) if step.unit else ()), *step.keeps]


def _runs(host: Host, step: Step) -> str:
    """Whether the unit runs: "activating auto-restart"."""
    if not step.unit:
        return ""
    told = host.run("systemctl", "show", "--property=ActiveState", "--property=SubState", "--", step.unit)
    values = dict(line.partition("=")[::2] for line in told.splitlines())
    return f"{values.get('ActiveState', '')} {values.get('SubState', '')}"


def _written(plan: Plan, steps: list[Step]) -> Event:
    cured = {"sign": plan.cures.sign, "subject": plan.cures.subject, "says": plan.cures.says}
    rest = {"name": plan.name, "risk": plan.risk, "proof": list(plan.proof)}
    return {"cures": cured, **rest, "steps": [dataclasses.asdict(step) for step in steps]}


def _step(fix: Fix, number: int) -> Step:
    told: dict[str, Any] = fix.plan["steps"][number]
    words: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    return Step(**words)
