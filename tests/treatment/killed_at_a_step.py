"""A plan whose steps kill who carries them out; run as a program, for it is that program that dies.

python -m tests.treatment.killed_at_a_step FOLDER apply|resume|undo
"""

from __future__ import annotations

import sys
from pathlib import Path

from zombiescope.core import Finding, Host, Plan, Reading, Span, Step
from zombiescope.treatment.apply import Machine, apply, resume, undo
from zombiescope.treatment.ledger import Ledger

MACHINE = Machine(Host(), Host())
READ = Reading(what="x", subject="node", value=1, at=0, source="/proc/x")
FINDING = Finding(subject="node", span=Span(0, 1), says="sick", evidence=(READ,), sign="z")


def plan(*steps: Step) -> Plan:
    return Plan(cures=FINDING, steps=steps, risk="safe", proof=(), name="cure")


def tell(_: str) -> None:
    pass


def three_steps(folder: Path) -> Plan:
    """Each kills who runs it, once, where a file says so: before it does what it should, or after."""
    script = (
        '[ -e "$0/before-$1" ] && rm "$0/before-$1" && kill -9 $PPID && exit; echo "step $1" > "$0/file-$1"; '
        '[ -e "$0/after-$1" ] && rm "$0/after-$1" && kill -9 $PPID; true'
    )
    return plan(
        *(
            Step(
                says=f"step {number}",
                argv=("sh", "-c", script, str(folder), str(number)),
                keeps=(str(folder / f"file-{number}"),),
            )
            for number in range(3)
        )
    )


def main(folder: Path, way: str) -> None:
    ledger = Ledger(str(folder / "ledger"))
    if way == "apply":
        apply(three_steps(folder), MACHINE, ledger, tell)
    else:
        {"resume": resume, "undo": undo}[way]("1", MACHINE, ledger, tell)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
