"""Fixes on a real systemd: a leak is stopped and proved, another purged, and all of it can be undone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.live.leaking_agent import LEAKS, applied, leaking, state
from tests.treatment.pinned_cgroups import cached_pages

from zombiescope.lab._loads import load
from zombiescope.lab._systemd import Booted
from zombiescope.lab._zombies import leaked
from zombiescope.treatment.ledger import Ledger

pytestmark = [pytest.mark.kernel, pytest.mark.beside, pytest.mark.usefixtures("memory_cgroups", "can_boot")]


# Whatever is found is fixed, and what others do would be in the proof. A look of 12 s: a slow machine restarts the unit
# four times a second, two where it has neighbours, and growth is twenty more dying cgroups and none fewer in between.
@pytest.mark.alone
@pytest.mark.usefixtures("none_is_freed")
def test_a_leak_is_stopped_proved_and_all_of_it_taken_back(zombiescope: Run, logs: Path, ledger: Ledger) -> None:
    with leaked(150, label="fix-earlier"), leaking(logs) as systemd, load("job", "0.6"):
        before = state(systemd)
        done = zombiescope("fix", "--apply", "--prove", "10s", "--seconds", "12", "--format", "json")
        assert done.stdout, done.stderr
        told = json.loads(done.stdout)
        stopped = systemd.show("ecs.service", "ActiveState")
        cured = state(systemd)
        again = zombiescope("fix", "ecs.service", "--apply", "--seconds", "2", "--hz", "0", expect=0)
        assert "fix 1 fixed it" in again.stdout and len(ledger.fixes()) == 1 and state(systemd) == cured
        zombiescope("fix", "--undo", "1", expect=0)
        after = state(systemd)
        runs = systemd.show("ecs.service", "ActiveState")
    wrong = [it for it in told["proof"]["checks"] if it["state"] != "held"]
    assert told["proof"]["state"] == "proved", wrong
    assert [fix["remedy"] for fix in told["fixes"]] == ["stop_leaking_unit"]
    assert any(it["kind"] == "experiment" for link in told["proof"]["links"] for it in link["grounds"])
    assert stopped in ("inactive", "failed") and cured != before
    assert cured[1] == "masked"
    assert after == before
    assert runs in ("activating", "active")
    assert [fix.state for fix in ledger.fixes()] == ["undone"]


def test_a_unit_of_the_admin_s_own_is_disabled_and_taken_back(zombiescope: Run, logs: Path, ledger: Ledger) -> None:
    """Its file lies where the link of a mask would."""
    with leaking(logs, place="etc") as systemd:
        before = state(systemd)
        applied(zombiescope, "ecs.service")
        stopped, cured = systemd.show("ecs.service", "ActiveState"), state(systemd)
        zombiescope("fix", "--undo", "1", expect=0)
        assert state(systemd) == before
        assert systemd.show("ecs.service", "ActiveState") in ("activating", "active")
    assert stopped in ("inactive", "failed") and cured != before and cured[1] == "disabled"
    assert [fix.state for fix in ledger.fixes()] == ["undone"]


@pytest.mark.alone
@pytest.mark.long
def test_a_cure_of_the_wrong_unit_is_not_proved(zombiescope: Run, logs: Path, ledger: Ledger) -> None:
    with leaking(logs, others={"innocent.service": LEAKS}):
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


SYSV = """#!/bin/sh
### BEGIN INIT INFO
# Provides: ecs
# Required-Start: $remote_fs
# Required-Stop:
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
### END INIT INFO
"""


def _with_sysv_script(systemd: Booted) -> None:
    """As packages of Debian have one beside their unit: `systemctl disable` disables it too."""
    etc = Path(systemd.root) / "etc"
    (etc / "init.d/ecs").write_text(SYSV)
    (etc / "init.d/ecs").chmod(0o755)
    for level in "2345":
        (etc / f"rc{level}.d/S01ecs").symlink_to("../init.d/ecs")


def test_links_that_another_unit_or_an_alias_has_are_restored_too(zombiescope: Run, logs: Path, ledger: Ledger) -> None:
    """`systemctl disable` follows Also=, removes the aliases and disables the SysV script; what another admin enabled
    since stays enabled."""
    assert ledger.fixes() == []
    helper = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep 300\n"
    others = {
        "ecs.service": LEAKS + "Alias=agent.service\nAlso=helper.service\n",
        "helper.service": helper + "[Install]\nWantedBy=basic.target\nRequiredBy=helped.target\n",
        "since.service": helper + "[Install]\nWantedBy=basic.target\n",
    }
    with leaking(logs, others=others) as systemd:
        _with_sysv_script(systemd)
        before = state(systemd)
        assert "/etc/systemd/system/basic.target.wants/helper.service" in before[0]
        applied(zombiescope, "ecs.service")
        gone = ("/helper.service", "/agent.service", "/S01ecs")
        assert not {it for it in state(systemd)[0] if it.endswith(gone)}, "or it tests nothing"
        systemd.systemctl("enable", "since.service")
        since = "/etc/systemd/system/basic.target.wants/since.service"
        assert since in state(systemd)[0]
        zombiescope("fix", "--undo", "1", expect=0)
        after = state(systemd)
        assert after[0].pop(since)["kind"] == "link"
        assert after == before


@pytest.mark.alone  # it frees what others leak, too
def test_the_purge_says_what_each_rung_freed_and_whose_files_are_left(
    zombiescope: Run, tmp_path: Path, ledger: Ledger
) -> None:
    innocent = tmp_path / "innocent"
    innocent.write_bytes(os.urandom(4 << 20))
    os.sync()
    with leaked(1003, label="purge-disk", folder=str(tmp_path)), leaked(103, label="purge-shm") as in_memory:
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
    assert _freed(files) >= 990, "but for a residue of about a dozen"
    assert f"103 by {in_memory.file}" in advice.replace("tmpfs: ", "") or in_memory.file in advice
    assert _freed(advice) < 100 and _freed(reclaim) < 100
    assert still >= 0.9 * pages > 0, "the cache of a file that pins nobody survives"
    assert ledger.fix("1").state == "finished"


def _freed(said: str) -> int:
    """freed 5,003 of 6,012 in 1.2 s, 1,009 left"""
    return int(said.split()[1].replace(",", ""))
