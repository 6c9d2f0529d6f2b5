"""A day in short: one agent through faults of the lab, one after the other. Each is an event in time, no control is.

ZOMBIESCOPE_DAY=all takes every scenario that one agent can see, about an hour; ZOMBIESCOPE_DAY=quiet,throttled some.
Scenarios with a systemd of their own are in test_agent.py: a running agent does not change the systemd that it asks.
"""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.agent.running import Agent, running
from tests.peers import answered, free_port, peer, server

from zombiescope.agent.budget import cpu_of
from zombiescope.lab._judge import OF_THE_MACHINE
from zombiescope.lab._scenario import missing
from zombiescope.members.rooms import healthy

pytestmark = [pytest.mark.kernel, pytest.mark.long, pytest.mark.usefixtures("memory_cgroups", "as_before")]
SOME = "quiet,throttled,user_loop_one_core,zombie_walk"
WITHIN = 90.0  # seconds from the beginning of a fault to its event
LEFT = 60.0  # seconds for which a control runs
DEFAULTS = ("throttled", "kernel_lock", "page_faults", "starved_thread")
QUIET = 45.0  # seconds between two faults
BUDGET = 0.03  # of a core; with looks every 30 s instead of 60 s, as there is trouble all day
PERF = ("perf", "record", "-q", "-F", "49", "-a", "-g", "--switch-output=10s", "--switch-max-files=2", "-o")


def scenarios() -> dict[str, ModuleType]:
    wanted = os.environ.get("ZOMBIESCOPE_DAY", SOME)
    every = {
        name: it
        for name, it in healthy("lab").items()
        if "systemd" not in it.NEEDS and not getattr(it, "RECORDED", False) and not missing(it.NEEDS)
    }
    return every if wanted == "all" else {name: every[name] for name in wanted.split(",") if name in every}


def test_every_fault_is_an_event_in_time_and_no_control_is_one(tmp_path: Path) -> None:
    late, accused, sizes = list[str](), list[str](), list[tuple[float, float]]()
    options = ("--every", "30s", "--window", "5m", "--budget", f"{BUDGET:.1%}", "--hz", "49", "--set", "kmsg.PAST=0")
    with running(tmp_path / "rec", *options) as agent, _peers(tmp_path) as peers:
        agent.looked()
        began, spent, theirs = time.monotonic(), _figure(agent, "own_cpu_seconds_total"), peers()
        for name, scenario in scenarios().items():
            at = time.time()
            with scenario.run(1.0):
                if scenario.TRUTH.root and not scenario.TRUTH.noted:
                    if not _told(agent, scenario, at):
                        late.append(name)
                else:
                    time.sleep(LEFT)
                    accused += [f"{name}: {it}" for it in _accused(agent, at) if it.split()[0] != scenario.TRUTH.root]
            passed, size = time.monotonic() - began, _figure(agent, "own_memory_bytes") / 1e6
            sizes.append((passed, size))
            share = (_figure(agent, "own_cpu_seconds_total") - spent) / passed
            said = f"{size:.0f} MB {_by_process(agent)}, {share:.2%} so far; {late=} {accused=}"
            print(f"{time.time() - at:5.0f} s {name}, {said}", flush=True)
        throttled = _figure(agent, "cpu_throttled_seconds_total") if "throttled" in scenarios() else 60.0
        passed = time.monotonic() - began
        share = (_figure(agent, "own_cpu_seconds_total") - spent) / passed
        beside = (peers() - theirs) / passed
        events = agent.events()
    slope = statistics.linear_regression(*zip(*sizes, strict=True)).slope * 3600 if len(sizes) > 1 else 0.0
    print(f"{share:.2%} of a core; perf record and node_exporter {beside:.2%}, ratio {share / beside:.2f}")
    print(f"{len(events)} events, {throttled:.0f} s throttled, memory {slope:+.1f} MB an hour")
    assert not late and not accused, (late, accused)
    assert [it["seq"] for it in events] == list(range(1, len(events) + 1))
    assert share <= BUDGET, share
    assert throttled > 1, "what the fault throttled was not counted"
    third = max(len(sizes) // 3, 1)
    last, first = ([size for _, size in it] for it in (sizes[-third:], sizes[:third]))
    assert statistics.median(last) < 1.1 * statistics.median(first), sizes


def test_with_its_defaults_a_fault_on_a_quiet_node_is_an_event_in_time(tmp_path: Path) -> None:
    """A look a minute, ten minutes of window, 1 % of a core: no crash announces these."""
    took: dict[str, float] = {}
    with running(tmp_path, "--set", "kmsg.PAST=0", "--hz", "49") as agent:
        agent.looked()
        for name in DEFAULTS:
            scenario, at = healthy("lab")[name], time.time()
            with scenario.run(1.0):
                found = _told(agent, scenario, at)
                took[name] = time.time() - at
            print(
                f"{took[name]:5.0f} s {name}: {found}, a look takes {_figure(agent, 'look_cpu_seconds'):.2f} s",
                flush=True,
            )
            time.sleep(QUIET)
        cpu = _figure(agent, "own_cpu_seconds_total")
    print(f"{cpu:.1f} s of CPU in all")
    assert max(took.values()) < WITHIN, took


def _accused(agent: Agent, at: float) -> list[str]:
    """Who was accused since then. Beside full load a thread may truly starve: that is said, with nobody to blame."""
    firsts = [it["chain"][0] for it in agent.events() if it["began"] >= at]
    symptoms = {name for name, sign in healthy("signs").items() if getattr(sign, "SYMPTOM", False)}
    for it in firsts:
        print(f"      {it['sign']} {it['subject']}", flush=True)
    return [f"{it['sign']} {it['subject']}" for it in firsts if it["sign"] not in symptoms | {*OF_THE_MACHINE}]


def _told(agent: Agent, scenario: ModuleType, at: float) -> bool:
    """An event of it, or the finding of an earlier scenario of the same kind goes on."""
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        found: list[dict[str, Any]] = json.loads(agent.get("/findings"))
        if any(it["last"] >= at and scenario.TRUTH.root in [one["sign"] for one in it["chain"]] for it in found):
            return True
        time.sleep(1)
    return False


@contextmanager
def _peers(folder: Path) -> Iterator[Callable[[], float]]:
    """perf record and node_exporter, scraped four times a minute: the CPU seconds they have taken so far."""
    port, ended = free_port(), threading.Event()
    url = f"http://127.0.0.1:{port}/metrics"

    def scraped() -> None:
        while not ended.wait(15):
            answered(url)

    argv = (*peer("prometheus-node-exporter"), f"--web.listen-address=127.0.0.1:{port}")
    with ExitStack() as stack:
        exporter = stack.enter_context(server(*argv, ready=url))
        perf = stack.enter_context(subprocess.Popen([*PERF, str(folder / "perf.data")], stderr=subprocess.DEVNULL))
        stack.callback(perf.send_signal, signal.SIGINT)
        scraping = threading.Thread(target=scraped)
        scraping.start()
        stack.callback(scraping.join)
        stack.callback(ended.set)
        yield lambda: cpu_of(exporter) + cpu_of(perf.pid)


def _by_process(agent: Agent) -> str:
    lines = re.findall(r'^zombiescope_own_memory_bytes{process="(\w+)"} ([\d.e+]+)$', _metrics(agent), re.MULTILINE)
    return " ".join(f"{name} {float(size) / 1e6:.0f}" for name, size in lines)


def _metrics(agent: Agent) -> str:
    return agent.get("/metrics").decode()


def _figure(agent: Agent, name: str) -> float:
    found = re.findall(rf"^zombiescope_{name}(?:{{[^}}]*}})? ([\d.e+]+)$", _metrics(agent), re.MULTILINE)
    return sum(map(float, found))
