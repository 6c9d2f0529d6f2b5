"""The shipped unit under a real systemd: hardened as it is, it becomes ready, reloads, sees, and stops in order."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import CANNOT, COMMAND, PROJECT
from tests.waiting import until

from zombiescope.lab._systemd import Booted, booted

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("memory_cgroups", "can_boot", "as_before")]
SOURCE = "/opt/source"  # where the systemd of the lab sees this folder
NAME = "zombiescope-agent.service"


def shipped() -> str:
    """As it is, with the command of this environment and the code of this folder, wherever that is."""
    text = (PROJECT / "deploy" / "systemd" / NAME).read_text()
    ours = f"{COMMAND} agent --config /etc/zombiescope/agent.toml"
    text = text.replace("/opt/zombiescope/bin/zombiescope agent --config /etc/zombiescope/agent.toml", ours)
    seen = f"Environment=PYTHONPATH={SOURCE}/src\n"
    assert ours in text
    return text.replace("[Unit]\n", "[Unit]\nDefaultDependencies=no\n").replace("[Service]\n", f"[Service]\n{seen}")


def state(systemd: Booted, wanted: str) -> None:
    try:
        until(lambda: systemd.show(NAME, "ActiveState") == wanted)
    except AssertionError as error:
        raise AssertionError(systemd.systemctl("show", NAME)) from error


def test_the_unit() -> None:
    if str(COMMAND).startswith(("/tmp/", "/var/tmp/")):
        pytest.skip(CANNOT + "show the unit a program in /tmp or /var/tmp: it has its own")
    settings = 'listen = "127.0.0.1:9479"\ntextfile = "/var/lib/zombiescope"\nevery = "5s"\nbudget = "20%"\n'
    files = {"/etc/zombiescope/agent.toml": settings}
    with booted({NAME: shipped()}, files=files, binds={SOURCE: str(PROJECT)}, label="agent") as systemd:
        state(systemd, "active")
        assert systemd.show(NAME, "Result") == "success"
        kept = Path(systemd.root) / "var/lib/zombiescope"
        until(lambda: (kept / "zombiescope.prom").exists() or systemd.show(NAME, "NRestarts") != "0")
        assert systemd.show(NAME, "NRestarts") == "0"
        metrics = (kept / "zombiescope.prom").read_text()
        assert "zombiescope_recorder_up 1" in metrics and "zombiescope_recorder_starts_total 1" in metrics
        systemd.systemctl("reload", NAME)
        state(systemd, "active")
        systemd.systemctl("stop", NAME)
        assert systemd.show(NAME, "Result") == "success" and (kept / "agent/events.jsonl").exists()
