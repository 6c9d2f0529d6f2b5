"""`fix` killed after each step and at random moments: the ledger is true, and both ways work."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import PROJECT, Run
from tests.live.leaking_agent import ADVICE, LEAKS, LOOKS, applied, leaking, state
from tests.waiting import until

from zombiescope.treatment.ledger import Ledger
from zombiescope.treatment.proofs import KILLED, proof_of

pytestmark = [pytest.mark.kernel, pytest.mark.beside, pytest.mark.usefixtures("memory_cgroups", "can_boot")]


@pytest.mark.parametrize("way", ["--resume", "--undo"])
def test_killed_after_each_step_in_turn_the_ledger_tells_the_truth_and_both_ways_work(
    zombiescope: Run, logs: Path, ledger: Ledger, way: str
) -> None:
    with leaking(logs) as systemd:
        before = state(systemd)
        for step in range(3):
            identity = _killed_after(ledger, step)
            (fix,) = (fix for fix in ledger.fixes() if fix.id == identity)
            done = [number for number, events in fix.steps().items() if "done" in events]
            assert done[: step + 1] == list(range(step + 1))
            if step < 2:
                assert fix.state == "interrupted"
            if fix.state == "interrupted":
                zombiescope("fix", way, identity, expect=0)
            if way == "--resume":
                assert state(systemd)[1] == "masked"
            if ledger.fix(identity).state != "undone":
                zombiescope("fix", "--undo", identity, expect=0)
            assert state(systemd) == before
            assert systemd.show("ecs.service", "ActiveState") in ("activating", "active")
            assert ledger.fix(identity).state == "undone"


# Kills the process that applies the plan as soon as the links are removed, before it can write that down.
KILLED_AT_DISABLE = """
import sys
from dataclasses import replace
from tests.treatment.killed_at_a_step import plan, tell
from tests.waiting import until
from zombiescope.audit.systemd import system_of
from zombiescope.core import Host, Step
from zombiescope.treatment.apply import Machine, apply
from zombiescope.treatment.ledger import Ledger
units = system_of(Host())
script = '"$@"; code=$?; case "$*" in *"systemctl disable"*) kill -9 $PPID;; esac; exit $code'
machine = Machine(Host(), Host(units.root, live=True, enter=("sh", "-c", script, "sh", *units.enter)))
step = Step(says="disable", argv=("systemctl", "disable", "--", "ecs.service"), unit="ecs.service")
apply(replace(plan(step), name="stop_leaking_unit"), machine, Ledger(), tell)
"""


@pytest.mark.parametrize("way", ["--undo", "--resume"])
def test_what_others_enable_and_disable_after_a_crash_stays(
    zombiescope: Run, logs: Path, ledger: Ledger, way: str
) -> None:
    """The links of Also= come back with the unit's own; those of units that another admin changed since do not."""
    helper = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep 300\n[Install]\nWantedBy=basic.target\n"
    others = {
        "ecs.service": LEAKS + "Alias=agent.service\nAlso=helper.service\n",
        **{f"{name}.service": helper for name in ("helper", "since", "gone")},
    }
    wants = "/etc/systemd/system/basic.target.wants"
    with leaking(logs, others=others) as systemd:
        systemd.systemctl("enable", "gone.service")
        before = state(systemd)
        done = subprocess.run([sys.executable, "-c", KILLED_AT_DISABLE], cwd=PROJECT, check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL and ledger.fix("1").state == "interrupted"
        assert f"{wants}/helper.service" not in state(systemd)[0], "or it tests nothing"
        systemd.systemctl("enable", "since.service")
        systemd.systemctl("disable", "gone.service")
        for argv in (["--resume", "1"], ["--undo", "1"]) if way == "--resume" else (["--undo", "1"],):
            zombiescope("fix", *argv, expect=0)
        after = state(systemd)
        assert after[0].pop(f"{wants}/since.service")["kind"] == "link"
        assert before[0].pop(f"{wants}/gone.service")["kind"] == "link"
        assert after == before


def test_undo_killed_before_the_unit_is_started_again_starts_it_the_next_time(
    zombiescope: Run, logs: Path, ledger: Ledger
) -> None:
    with leaking(logs) as systemd:
        applied(zombiescope, "unit:ecs.service")
        argv = [sys.executable, "-m", "zombiescope", "fix", "--undo", "1"]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as undoing:
            while undoing.poll() is None:
                undone = {it["step"] for it in ledger.fix("1").events if it["event"] == "step undone"}
                if undone == {0, 1, 2}:
                    undoing.send_signal(signal.SIGKILL)
        assert ledger.fix("1").state == "interrupted"
        zombiescope("fix", "--undo", "1", expect=0)
        assert systemd.show("ecs.service", "ActiveState") in ("activating", "active")


KILLS = int(os.environ.get("ZOMBIESCOPE_KILLS", "8"))
QUICK = ("--apply", "--seconds", "2", "--hz", "0")
PROVE = ("--prove", "3s")


def test_killed_at_random_moments_of_apply_undo_prove_and_resume(zombiescope: Run, logs: Path, ledger: Ledger) -> None:
    """Whatever was killed when, undo brings back every byte, and the next fix is not blocked."""
    seed = int(os.environ.get("ZOMBIESCOPE_SEED", str(time.time_ns() % 1_000_000)))
    chance = random.Random(seed)
    with leaking(logs) as systemd:
        before = state(systemd)
        identity = ""
        for _ in range(KILLS):
            open_ = [fix for fix in ledger.fixes() if fix.state in ("interrupted", "failed")]
            finished = [fix for fix in ledger.fixes() if fix.state == "finished"]
            if open_:
                ways = ["--undo"] if any(it["event"] == "undoing all" for it in open_[-1].events) else WAYS
                argv = [chance.choice(ways), open_[-1].id]
            elif finished:
                proof = (proof_of(finished[-1]) or {}).get("state")
                assert proof in (None, KILLED, "proved", "not proved", "cannot tell"), f"seed {seed}"
                argv = [chance.choice(WAYS if proof == KILLED else ["--undo"]), finished[-1].id]
            else:
                argv = ["unit:ecs.service", *QUICK, *chance.choice([(), PROVE])]
            longest = 5.0 if PROVE[0] in argv or (finished and argv[0] == "--resume") else 0.5
            _killed_at_random(ledger, argv, chance.random() * longest)
            identity = ledger.fixes()[-1].id if ledger.fixes() else ""
            assert len(open_) <= 1, f"seed {seed}"
        if identity and ledger.fix(identity).state != "undone":
            zombiescope("fix", "--undo", identity, expect=0)
        until(lambda: state(systemd) == before)  # a command of one that was killed may still be at work
        assert systemd.show("ecs.service", "ActiveState") in ("activating", "active"), f"seed {seed}"
        assert identity, "none of them began"


WAYS = ["--resume", "--undo"]


def _killed_at_random(ledger: Ledger, argv: list[str], after: float) -> None:
    """Killed so many seconds after its first line in the ledger; some end before."""
    size = os.path.getsize(ledger.path) if os.path.exists(ledger.path) else 0
    command = [sys.executable, "-m", "zombiescope", "fix", *argv]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as fixing:
        while fixing.poll() is None:
            if os.path.exists(ledger.path) and os.path.getsize(ledger.path) > size:
                time.sleep(after)
                fixing.send_signal(signal.SIGKILL)
                break
            time.sleep(0.002)


def _killed_after(ledger: Ledger, step: int) -> str:
    """The number of the fix. A look that sees too little does nothing; a longer one follows (see `applied`)."""
    known = {fix.id for fix in ledger.fixes()}
    argv = [sys.executable, "-m", "zombiescope", "fix", "unit:ecs.service", "--apply", "--hz", "0", "--seconds"]
    for seconds in LOOKS:
        with subprocess.Popen(
            [*argv, f"{seconds}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as fixing:
            over = False
            while not over:
                over = fixing.poll() is not None  # then the ledger is read once more: the last step may just be done
                for fix in ledger.fixes():
                    if fix.id not in known and "done" in fix.steps().get(step, {}):
                        fixing.send_signal(signal.SIGKILL)
                        fixing.communicate()
                        return fix.id
                time.sleep(0.002)
            said = fixing.communicate()[0]
        if ADVICE not in said:
            break
    raise AssertionError(f"it ended before it could be killed: {said}")
