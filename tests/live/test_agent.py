"""A real crash loop that leaks, and the agent beside it: an event within 90 s that names the unit."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.agent.running import running

from zombiescope.lab import crash_loop
from zombiescope.lab._leaking import leaking
from zombiescope.lab._units import LEAKS, restarted

pytestmark = [pytest.mark.kernel, pytest.mark.long, pytest.mark.usefixtures("memory_cgroups", "can_boot", "as_before")]
KILLS = int(os.environ.get("ZOMBIESCOPE_KILLS", "10"))
LOOKS = 5  # one in so many is killed after a look, the others while they start
PAUSE = 0.5  # seconds between two runs: two hundred kills take a quarter of an hour, and each run leaves a cgroup
WITHIN = 90.0  # seconds from the beginning of the fault to its event


def test_a_crash_loop_makes_one_event_in_time(tmp_path: Path) -> None:
    with crash_loop.run():
        # The systemd of the lab is the one that is asked; the agent's children hear of it by the environment.
        began = time.time()
        with running(tmp_path, "--every", "15s", "--budget", "20%", "--set", "kmsg.PAST=0") as agent:
            agent.until(lambda: any("crash_looping_unit" in line for line in agent.out), WITHIN)
            took = time.time() - began
            agent.looked(3)  # and it stays one event
            metrics = agent.get("/metrics").decode()
            events = [json.loads(line) for line in agent.out]
    assert took < WITHIN
    ours = [it for it in events if it["sign"] == "crash_looping_unit"]
    assert [(it["event"], it["subject"]) for it in ours] == [("began", "unit:ecs.service")]
    assert [it["sign"] for it in ours[0]["chain"]][:2] == ["crash_looping_unit", "zombie_cgroups"]
    assert ours[0]["harm"]["broken"].get("crashes") and ours[0]["evidence"]
    assert 'zombiescope_unit_restarts_total{unit="ecs.service"}' in metrics
    assert 'sign="crash_looping_unit",subject="unit:ecs.service"' in metrics
    assert agent.events() == events


def test_killed_while_a_fault_goes_on_it_neither_forgets_nor_doubles(tmp_path: Path) -> None:
    options = ("--every", "10s", "--budget", "20%", "--set", "kmsg.PAST=0")
    moments = random.Random(7)
    with leaking({"ecs.service": restarted(LEAKS, PAUSE)}, label="kills", scale=1.0):
        for number in range(KILLS):
            with running(tmp_path, *options) as agent:
                if number % LOOKS:
                    time.sleep(moments.uniform(0.0, 3.0))
                else:
                    agent.looked()
                agent.stop(signal.SIGKILL)
        with running(tmp_path, *options) as agent:
            agent.looked(2)
            going_on = json.loads(agent.get("/findings"))
            written = agent.events()
    ours = [it for it in written if it["sign"] == "crash_looping_unit"]
    assert [it["event"] for it in ours] == ["began"]
    assert ours[0]["id"] in [it["id"] for it in going_on]
    assert [it["seq"] for it in written] == list(range(1, len(written) + 1))
