"""What `fix` leaves alone or refuses: essential and transient units, and what only restarts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.live.leaking_agent import LEAKS, WANTED, applied, leaking, state
from tests.looping_unit import looping
from tests.waiting import until

from zombiescope.treatment.ledger import Ledger

pytestmark = [pytest.mark.kernel, pytest.mark.beside, pytest.mark.usefixtures("memory_cgroups", "can_boot")]


def test_what_is_essential_is_refused_with_the_reason(zombiescope: Run, logs: Path, ledger: Ledger) -> None:
    """A runtime that crash-loops while one of its containers runs; and the bus, of which nothing is found."""
    shim = logs / "conmon"
    shim.write_bytes(Path("/bin/sleep").read_bytes())
    shim.chmod(0o755)
    runs = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/var/lib/agent/conmon 300\n"
    with leaking(logs, others={"docker.service": LEAKS, "shim.service": runs}) as systemd:
        before = state(systemd, "docker.service")
        refused = zombiescope("fix", "docker.service", "--apply", "--seconds", "2", expect=2)
        assert "containers of this node run under it" in refused.stderr
        assert "--force-essential docker.service" in refused.stderr
        assert (
            "systemd and other services talk over it"
            in zombiescope("fix", "dbus.service", "--seconds", "1", expect=2).stderr
        )
        assert state(systemd, "docker.service") == before and ledger.fixes() == []
        systemd.systemctl("stop", "shim.service")
        applied(zombiescope, "docker.service")
        assert state(systemd, "docker.service")[1] == "masked"


def test_a_transient_unit_is_refused(zombiescope: Run, logs: Path, ledger: Ledger) -> None:
    from zombiescope.audit.systemd import system_of
    from zombiescope.core import Host

    with leaking(logs) as systemd:
        loop = ("--property=Restart=always", "--property=RestartSec=50ms", "--property=StartLimitIntervalSec=0")
        leaks = "mktemp /var/lib/agent/tXXXXXX.log; exit 1"  # no dollars: systemd and the shell both expand them
        system_of(Host()).run("systemd-run", "--unit=made.service", *loop, "--", "/bin/sh", "-c", leaks)
        until(lambda: len(list(logs.glob("t*.log"))) >= 8)
        done = zombiescope("fix", "made.service", "--apply", "--seconds", "4", "--hz", "0", expect=2)
        assert "is generated: change what generates it" in " ".join(done.stdout.split())
        assert systemd.show("made.service", "LoadState") == "loaded" and ledger.fixes() == []


OTHERS = {
    "worker": looping("echo job > /var/lib/agent/$$$$.log; sleep 0.2; exit 0"),  # ends with success after each job
    "fails": looping("sleep 0.2; exit 1"),  # leaves nothing behind
}


@pytest.mark.alone  # without a name all that is found is fixed
def test_what_only_restarts_is_left_alone(zombiescope: Run, logs: Path, ledger: Ledger) -> None:
    """Beside a real leak: a unit is not stopped for its restarts alone."""
    names = [f"{unit}.service" for unit in OTHERS]
    with leaking(logs, others={f"{unit}.service": text + WANTED for unit, text in OTHERS.items()}) as systemd:
        before = {name: state(systemd, name) for name in names}
        with ThreadPoolExecutor() as both:
            look = ("--apply", "--seconds", "3", "--hz", "0")
            said = dict(
                zip(names, both.map(lambda name: zombiescope("fix", name, *look, expect=2), names), strict=True)
            )
        for name, done in said.items():
            assert "the plan is advice" in done.stderr and f"{name} is left alone" in done.stdout
        assert {name: state(systemd, name) for name in names} == before and ledger.fixes() == []
        zombiescope("fix", "--apply", "--seconds", "5", "--hz", "0")
        for name, (files, enabled) in before.items():
            after = state(systemd, name)
            mine = {path for path in files if name in path}
            assert {path: after[0][path] for path in mine} == {path: files[path] for path in mine}
            assert after[1] == enabled
            assert systemd.show(name, "ActiveState") in ("activating", "active", "deactivating")
        assert state(systemd)[1] == "masked", "the leak itself is stopped"


def test_what_others_need_is_given_a_start_limit_and_runs_on(zombiescope: Run, logs: Path, ledger: Ledger) -> None:
    """It fails, then works: stopped at its first exit it would never get there."""
    needs = "[Unit]\nDefaultDependencies=no\nWants=ecs.service\n[Service]\nExecStart=/bin/sleep 300\n"
    with leaking(logs, others={"needs.service": needs}) as systemd:
        before = state(systemd)
        applied(zombiescope, "ecs.service")
        assert systemd.show("ecs.service", "UnitFileState") == before[1]
        assert systemd.show("ecs.service", "StartLimitBurst") == "5"
        assert systemd.show("ecs.service", "RestartPreventExitStatus") == ""
        zombiescope("fix", "--undo", "1", expect=0)
        assert state(systemd) == before
    assert ledger.fix("1").state == "undone"
