"""An agent that may fix things by itself, beside a real leak: it stops and proves it, or takes all of it back."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.agent.running import Agent, running
from tests.live.leaking_agent import LEAKS, leaking, state

from zombiescope.lab._loads import load
from zombiescope.treatment.ledger import Ledger

pytestmark = [pytest.mark.kernel, pytest.mark.long, pytest.mark.usefixtures("memory_cgroups", "can_boot", "as_before")]
ATTEMPTS = 2  # others on the machine may leak too, or take the load away
OPTIONS = ("--every", "10s", "--budget", "30%", "--set", "kmsg.PAST=0", "--remediate", "--remediate-prove", "20s")


def _ended(agent: Agent) -> dict[str, Any]:
    def ended() -> list[dict[str, Any]]:
        return [it for it in json.loads(agent.get("/remedies")) if it["what"] == "ended"]

    found: list[dict[str, Any]] = agent.until(ended, 200)
    return found[0]


def test_a_leak_is_stopped_and_proved(tmp_path: Path, logs: Path, ledger: Ledger) -> None:
    for attempt in range(ATTEMPTS):
        folder = tmp_path / f"rec{attempt}"
        with leaking(logs) as systemd, load("job", "0.6"), running(folder, *OPTIONS) as agent:
            result = _ended(agent)
            stopped = systemd.show("ecs.service", "ActiveState")
            metrics = agent.get("/metrics").decode()
            agent.looked(4)
            began = [it for it in json.loads(agent.get("/remedies")) if it["what"] == "began"]
        if result["result"] == "proved":
            break
    assert (result["result"], result["subject"]) == ("proved", "unit:ecs.service"), result["why"]
    assert len(began) == 1  # one a day
    assert stopped in ("inactive", "failed") and ledger.fixes()[-1].state == "finished"
    assert 'zombiescope_remedies_total{result="proved"} 1' in metrics
    written = folder / "agent" / "remedies.jsonl"
    assert written.stat().st_mode & 0o777 == 0o600 and len(written.read_text().splitlines()) == 3


def test_what_is_not_proved_is_taken_back(tmp_path: Path, logs: Path, ledger: Ledger) -> None:
    """Two units leak, and one of them is stopped: dying cgroups still grow."""
    with leaking(logs, others={"innocent.service": LEAKS}) as systemd:
        systemd.systemctl("start", "--no-block", "innocent.service")
        before = state(systemd)
        with running(tmp_path / "rec", *OPTIONS) as agent:
            result = _ended(agent)
            assert state(systemd) == before
    assert result["result"] == "undone" and result["why"], result
    assert [it.state for it in ledger.fixes()] == ["undone"]


def test_killed_in_the_middle_it_goes_on_and_does_not_begin_again(tmp_path: Path, logs: Path, ledger: Ledger) -> None:
    with leaking(logs) as systemd, load("job", "0.6"):
        with running(tmp_path / "rec", *OPTIONS) as agent:
            agent.until(lambda: [it for it in ledger.fixes() if it.state == "finished"], 120)  # now it is proved
            agent.stop(signal.SIGKILL)
        with running(tmp_path / "rec", *OPTIONS) as agent:
            assert agent.until(lambda: agent.said("which was interrupted"))
            result = _ended(agent)
        stopped = systemd.show("ecs.service", "ActiveState")
    assert result["result"] in ("proved", "undone") and len(ledger.fixes()) == 1
    assert (stopped in ("inactive", "failed")) == (result["result"] == "proved")
