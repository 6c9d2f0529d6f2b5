"""Cures on a real systemd: the leak is stopped, purged and proved; all of it can be taken back, also after kill -9."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.loop_disk import loop_disk
from tests.looping_unit import looping
from tests.treatment.pinned_cgroups import cached_pages

from zombiescope.core.places import LEDGER_ENVIRONMENT
from zombiescope.lab._loads import load
from zombiescope.lab._systemd import Booted, asked_by_diagnosis, booted
from zombiescope.lab._zombies import leaked
from zombiescope.treatment.kept import State, kept, link_farm, unit_files
from zombiescope.treatment.ledger import Ledger

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("memory_cgroups", "can_boot")]
WANTED = "[Install]\nWantedBy=multi-user.target\n"
# Each run writes a log on a disk, which outlives its cgroup and keeps it.
# 40 ms between two runs: between them systemd shows how the last one failed, as it does on a real node.
LEAKS = looping("echo cannot register > /var/lib/agent/$$$$.log; exit 1", pause=0.04) + WANTED
LOOPS = looping("exit 1", pause=0.04) + WANTED


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv(LEDGER_ENVIRONMENT, str(tmp_path / "ledger"))
    return Ledger()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Of its own: files that are made pin cgroups by a disk's metadata too, and all of that goes with it."""
    with loop_disk(tmp_path) as point:
        yield point


@contextmanager
def leaking(
    disk: Path, *, place: str = "usr", others: dict[str, str] | None = None, dead: int = 30
) -> Iterator[Booted]:
    """A systemd with ecs.service crash-looping and leaking for a while, its unit file a package's or an admin's."""
    packaged = {"ecs.service": LEAKS} if place == "usr" else {}
    files = {} if place == "usr" else {"/etc/systemd/system/ecs.service": LEAKS}
    bound = {"/var/lib/agent": str(disk)}
    with booted({**packaged, **(others or {})}, files=files, binds=bound, label="fix") as systemd:
        systemd.systemctl("enable", "ecs.service")
        systemd.systemctl("start", "--no-block", "ecs.service")
        with asked_by_diagnosis(systemd):
            deadline = time.monotonic() + 60
            while len(list(disk.iterdir())) < dead and time.monotonic() < deadline:
                time.sleep(0.05)
            yield systemd


def state(systemd: Booted, unit: str = "ecs.service") -> tuple[dict[str, State], str]:
    """All that undo must bring back."""
    from zombiescope.audit.systemd import system_of
    from zombiescope.core import Host

    host = system_of(Host())
    return kept(host, unit_files(unit)) | link_farm(host), systemd.show(unit, "UnitFileState")


def test_a_leak_is_stopped_proved_purged_and_all_of_it_taken_back(zombiescope: Run, disk: Path, ledger: Ledger) -> None:
    with leaking(disk, dead=150) as systemd, load("job", "0.6"):
        before = state(systemd)
        told = json.loads(zombiescope("fix", "--apply", "--prove", "15s", "--seconds", "5", "--format", "json").stdout)
        stopped = systemd.show("ecs.service", "ActiveState")
        cured = state(systemd)
        again = zombiescope("fix", "ecs.service", "--apply", "--seconds", "2", "--hz", "0", expect=0)
        assert "fix 1 fixed it" in again.stdout and len(ledger.fixes()) == 1 and state(systemd) == cured
        # By its name: they harm nobody, so cleaning them up is no part of the fix.
        quick = ("--apply", "--seconds", "2", "--hz", "0", "--format", "json")
        purge = zombiescope("fix", "purge_zombies", *quick, expect=0)
        for fix in reversed(ledger.fixes()):
            zombiescope("fix", "--undo", fix.id, expect=0)
        after = state(systemd)
        runs = systemd.show("ecs.service", "ActiveState")
    wrong = [it for it in told["proof"]["checks"] if it["state"] != "held"]
    assert told["proof"]["state"] == "proved", wrong
    assert [fix["remedy"] for fix in told["fixes"]] == ["stop_leaking_unit"]
    (purged,) = json.loads(purge.stdout)["fixes"]
    assert sum(_freed(step["said"]) for step in purged["steps"] if step["said"].startswith("freed")) >= 100
    assert any(it["kind"] == "experiment" for link in told["proof"]["links"] for it in link["grounds"])
    assert stopped in ("inactive", "failed") and cured != before
    assert cured[1] == "masked"
    assert after == before
    assert runs in ("activating", "active")
    assert [fix.state for fix in ledger.fixes()] == ["undone", "undone"]


def test_a_unit_of_the_admin_s_own_is_disabled_and_taken_back(zombiescope: Run, disk: Path, ledger: Ledger) -> None:
    """Its file lies where the link of a mask would."""
    with leaking(disk, place="etc") as systemd:
        before = state(systemd)
        zombiescope("fix", "ecs.service", "--apply", "--seconds", "2", "--hz", "0", expect=0)
        stopped, cured = systemd.show("ecs.service", "ActiveState"), state(systemd)
        zombiescope("fix", "--undo", "1", expect=0)
        assert state(systemd) == before
        assert systemd.show("ecs.service", "ActiveState") in ("activating", "active")
    assert stopped in ("inactive", "failed") and cured != before and cured[1] == "disabled"
    assert [fix.state for fix in ledger.fixes()] == ["undone"]


@pytest.mark.parametrize("way", ["--resume", "--undo"])
def test_killed_after_each_step_in_turn_the_ledger_tells_the_truth_and_both_ways_work(
    zombiescope: Run, disk: Path, ledger: Ledger, way: str
) -> None:
    with leaking(disk) as systemd:
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


KILLS = int(os.environ.get("ZOMBIESCOPE_KILLS", "12"))
QUICK = ("--apply", "--seconds", "2", "--hz", "0")


def test_killed_at_random_moments_of_apply_undo_and_resume(zombiescope: Run, disk: Path, ledger: Ledger) -> None:
    """Whatever was killed when, undo brings back every byte, and the next fix is not blocked."""
    seed = int(os.environ.get("ZOMBIESCOPE_SEED", str(time.time_ns() % 1_000_000)))
    chance = random.Random(seed)
    with leaking(disk) as systemd:
        before = state(systemd)
        identity = ""
        for _ in range(KILLS):
            open_ = [fix for fix in ledger.fixes() if fix.state in ("interrupted", "failed")]
            finished = [fix for fix in ledger.fixes() if fix.state == "finished"]
            if open_:
                ways = ["--undo"] if any(it["event"] == "undoing all" for it in open_[-1].events) else WAYS
                argv = [chance.choice(ways), open_[-1].id]
            elif finished:
                argv = ["--undo", finished[-1].id]
            else:
                argv = ["unit:ecs.service", *QUICK]
            _killed_at_random(ledger, argv, chance)
            identity = ledger.fixes()[-1].id if ledger.fixes() else ""
            assert len(open_) <= 1, f"seed {seed}"
        if identity and ledger.fix(identity).state != "undone":
            zombiescope("fix", "--undo", identity, expect=0)
        deadline = time.monotonic() + 10  # a command of one that was killed may still be at work
        while state(systemd) != before and time.monotonic() < deadline:
            time.sleep(0.2)
        assert state(systemd) == before, f"seed {seed}"
        assert systemd.show("ecs.service", "ActiveState") in ("activating", "active"), f"seed {seed}"
        assert identity, "none of them began"


WAYS = ["--resume", "--undo"]


def _killed_at_random(ledger: Ledger, argv: list[str], chance: random.Random) -> None:
    """Killed up to half a second after its first line in the ledger; some end before."""
    size = os.path.getsize(ledger.path) if os.path.exists(ledger.path) else 0
    command = [sys.executable, "-m", "zombiescope", "fix", *argv]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as fixing:
        while fixing.poll() is None:
            if os.path.exists(ledger.path) and os.path.getsize(ledger.path) > size:
                time.sleep(chance.random() * 0.5)
                fixing.send_signal(signal.SIGKILL)
                break
            time.sleep(0.002)


def _killed_after(ledger: Ledger, step: int) -> str:
    known = {fix.id for fix in ledger.fixes()}
    argv = [sys.executable, "-m", "zombiescope", "fix", "unit:ecs.service", "--apply", "--seconds", "4", "--hz", "0"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as fixing:
        while fixing.poll() is None:
            for fix in ledger.fixes():
                if fix.id not in known and "done" in fix.steps().get(step, {}):
                    fixing.send_signal(signal.SIGKILL)
                    fixing.wait()
                    return fix.id
    raise AssertionError("it ended before it could be killed")


def test_a_cure_of_the_wrong_unit_is_not_proved(zombiescope: Run, disk: Path, ledger: Ledger) -> None:
    with leaking(disk, others={"innocent.service": LEAKS}):
        told = json.loads(
            zombiescope(
                *("fix", "innocent.service", "--apply", "--prove", "12s", "--seconds", "5", "--format", "json"),
                expect=1,
            ).stdout
        )
    assert told["proof"]["state"] == "not proved", told["proof"]["checks"]
    failed = {it["name"] for it in told["proof"]["checks"] if it["state"] == "failed"}
    assert "dying memory cgroups do not grow" in failed and not any("unit" in name for name in failed)
    assert ledger.fix("1").state == "finished"


def test_what_is_essential_is_refused_with_the_reason(zombiescope: Run, disk: Path, ledger: Ledger) -> None:
    """A runtime that crash-loops while one of its containers runs; and the bus, of which nothing is found."""
    shim = disk / "conmon"
    shim.write_bytes(Path("/bin/sleep").read_bytes())
    shim.chmod(0o755)
    runs = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/var/lib/agent/conmon 300\n"
    with leaking(disk, others={"docker.service": LEAKS, "shim.service": runs}) as systemd:
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
        zombiescope("fix", "docker.service", "--apply", "--seconds", "2", expect=0)
        assert state(systemd, "docker.service")[1] == "masked"


def test_links_that_another_unit_or_an_alias_has_are_restored_too(zombiescope: Run, disk: Path, ledger: Ledger) -> None:
    """`systemctl disable` follows Also= and removes the aliases; what another admin enabled since stays enabled."""
    assert ledger.fixes() == []
    helper = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep 300\n"
    others = {
        "ecs.service": LEAKS + "Alias=agent.service\nAlso=helper.service\n",
        "helper.service": helper + "[Install]\nWantedBy=basic.target\nRequiredBy=helped.target\n",
        "since.service": helper + "[Install]\nWantedBy=basic.target\n",
    }
    with leaking(disk, others=others) as systemd:
        before = state(systemd)
        assert "/etc/systemd/system/basic.target.wants/helper.service" in before[0]
        zombiescope("fix", "ecs.service", "--apply", "--seconds", "3", "--hz", "0", expect=0)
        applied = state(systemd)[0]
        assert not {it for it in applied if "helper" in it or it.endswith("/agent.service")}, "or it tests nothing"
        systemd.systemctl("enable", "since.service")
        since = "/etc/systemd/system/basic.target.wants/since.service"
        assert since in state(systemd)[0]
        zombiescope("fix", "--undo", "1", expect=0)
        after = state(systemd)
        assert after[0].pop(since)["kind"] == "link"
        assert after == before


def test_a_transient_unit_is_refused(zombiescope: Run, disk: Path, ledger: Ledger) -> None:
    from zombiescope.audit.systemd import system_of
    from zombiescope.core import Host

    with leaking(disk) as systemd:
        loop = ("--property=Restart=always", "--property=RestartSec=50ms", "--property=StartLimitIntervalSec=0")
        leaks = "echo x > /var/lib/agent/t$$.log; exit 1"
        system_of(Host()).run("systemd-run", "--unit=made.service", *loop, "--", "/bin/sh", "-c", leaks)
        time.sleep(2)
        done = zombiescope("fix", "made.service", "--apply", "--seconds", "4", "--hz", "0", expect=2)
        assert "is generated: change what generates it" in " ".join(done.stdout.split())
        assert systemd.show("made.service", "LoadState") == "loaded" and ledger.fixes() == []


OTHERS = {
    "worker": looping("echo job > /var/lib/agent/$$$$.log; sleep 0.2; exit 0"),  # ends with success after each job
    "fails": looping("sleep 0.2; exit 1"),  # leaves nothing behind
}


@pytest.mark.parametrize("unit", OTHERS)
def test_what_only_restarts_is_left_alone(zombiescope: Run, disk: Path, ledger: Ledger, unit: str) -> None:
    """Beside a real leak: a unit is not stopped for its restarts alone."""
    name = f"{unit}.service"
    with leaking(disk, others={name: OTHERS[unit] + WANTED}) as systemd:
        before = state(systemd, name)
        done = zombiescope("fix", name, "--apply", "--seconds", "8", "--hz", "0", expect=2)
        assert "the plan is advice" in done.stderr and f"{name} is left alone" in done.stdout
        assert state(systemd, name) == before and ledger.fixes() == []
        zombiescope("fix", "--apply", "--seconds", "5", "--hz", "0")
        mine = {path for path in before[0] if name in path}
        after = state(systemd, name)
        assert {path: after[0][path] for path in mine} == {path: before[0][path] for path in mine}
        assert after[1] == before[1]
        assert state(systemd)[1] == "masked", "the leak itself is stopped"
        assert systemd.show(name, "ActiveState") in ("activating", "active", "deactivating")


def test_what_others_need_is_given_a_start_limit_and_runs_on(zombiescope: Run, disk: Path, ledger: Ledger) -> None:
    """It fails, then works: stopped at its first exit it would never get there."""
    needs = "[Unit]\nDefaultDependencies=no\nWants=ecs.service\n[Service]\nExecStart=/bin/sleep 300\n"
    with leaking(disk, others={"needs.service": needs}) as systemd:
        before = state(systemd)
        zombiescope("fix", "ecs.service", "--apply", "--seconds", "3", "--hz", "0", expect=0)
        assert systemd.show("ecs.service", "UnitFileState") == before[1]
        assert systemd.show("ecs.service", "StartLimitBurst") == "5"
        assert systemd.show("ecs.service", "RestartPreventExitStatus") == ""
        zombiescope("fix", "--undo", "1", expect=0)
        assert state(systemd) == before
    assert ledger.fix("1").state == "undone"


def test_the_purge_says_what_each_rung_freed_and_whose_files_are_left(
    zombiescope: Run, tmp_path: Path, ledger: Ledger
) -> None:
    innocent = tmp_path / "innocent"
    innocent.write_bytes(os.urandom(4 << 20))
    os.sync()
    with leaked(2003, label="purge-disk", folder=str(tmp_path)), leaked(503, label="purge-shm") as in_memory:
        assert innocent.read_bytes()
        pages = cached_pages(innocent)
        told = json.loads(
            zombiescope(
                "fix", "purge_zombies", "--apply", "--seconds", "2", "--hz", "0", "--format", "json", expect=0
            ).stdout
        )
        still = cached_pages(innocent)
    (fix,) = told["fixes"]
    said = {step["says"]: step["said"] for step in fix["steps"]}
    files, advice, reclaim = said.values()
    assert _freed(files) >= 1990, "but for a residue of about a dozen"
    assert f"503 by {in_memory.file}" in advice.replace("tmpfs: ", "") or in_memory.file in advice
    assert _freed(advice) < 100 and _freed(reclaim) < 100
    assert still >= 0.9 * pages > 0, "the cache of a file that pins nobody survives"
    assert ledger.fix("1").state == "finished"


def _freed(said: str) -> int:
    """freed 5,003 of 6,012 in 1.2 s, 1,009 left"""
    return int(said.split()[1].replace(",", ""))
