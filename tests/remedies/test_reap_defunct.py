"""reap_defunct: a parent that counts by signals is reminded, and reaps; the rest is advice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.nodes import node, read
from tests.remedies.planned import finding, plan_for, plans, to_nobody
from tests.waiting import until, waits

from zombiescope.core import Host, Plan, UserError
from zombiescope.treatment.apply import Machine, apply
from zombiescope.treatment.ledger import Ledger

CHILDREN = 25
# The children end before anybody listens for it, as in a supervisor that is busy for a moment too long.
PARENT = f"""
import os, signal, time
for _ in range({CHILDREN}):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
LISTEN and signal.signal(signal.SIGCHLD, reap)
print("ready", flush=True)
while True:
    time.sleep(60)
"""


def planned(parent: str) -> Plan:
    readings = [read("defunct_children", parent, 70, at, "job[11]; for 10 s or more") for at in (5.0, 10.0)]
    (plan,) = plans(node(readings), "reap_defunct", "defunct_processes")
    return plan


def test_the_signal_is_safe_and_the_restart_is_advice() -> None:
    plan = planned("process:super visor[4711]")
    act, advice = plan.steps
    assert plan.risk == "safe" and act.argv == ("kill", "-CHLD", "4711")
    assert not advice.argv and "systemctl status 4711" in advice.says


def test_a_hostile_name_and_the_first_process() -> None:
    plan = planned("process:in\x1b[0m[9]\n[1]")
    assert plan.steps[0].argv[-1] == "1" and "in\\x1b[0m[9]\\x0a" in plan.steps[0].says
    assert "tini" in plan.steps[1].says


@pytest.mark.parametrize("subject", ["node", "process:?", "process:a[-1]", "process:a[1 2]"])
def test_nobody_is_signalled_whose_number_is_not_known(subject: str) -> None:
    found = finding("defunct_processes", subject, read("defunct_children", subject, 70, 5.0))
    assert plan_for(found, "reap_defunct", node([])) is None


@contextmanager
def parent(listens: bool) -> Iterator[int]:
    code = PARENT.replace("LISTEN", str(listens))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


def defunct(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    states = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] for child in children]
    return states.count("Z")


@pytest.mark.parametrize("listens", [True, False])
def test_real_children(tmp_path: Path, listens: bool) -> None:
    if not Path("/proc/self/task").exists() or not list(Path("/proc/self/task").glob("*/children")):
        pytest.skip("this kernel does not list children")
    with parent(listens) as pid:
        assert defunct(pid) == CHILDREN
        plan, machine = planned(f"process:python[{pid}]"), Machine(Host(), Host())
        assert apply(plan, machine, Ledger(str(tmp_path)), to_nobody).state == "finished"
        if listens:
            until(lambda: not defunct(pid))
        else:
            until(lambda: waits(pid))  # it has had the signal
            assert defunct(pid) == CHILDREN
        assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z", "the parent goes on"


def test_nothing_is_done_twice_at_a_time(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    with parent(True) as pid, ledger.locked(), pytest.raises(UserError, match="another fix is running"):
        apply(planned(f"process:python[{pid}]"), Machine(Host(), Host()), Ledger(str(tmp_path)), to_nobody)
