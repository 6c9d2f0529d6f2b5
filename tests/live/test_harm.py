"""What real faults cost, against what the kernel itself counted of them."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack

import pytest
from tests.conftest import CANNOT

from zombiescope.core import Host, UserError
from zombiescope.diagnosis.examine import examine
from zombiescope.knowledge.functions import walks
from zombiescope.lab import throttled
from zombiescope.lab._cgroups import join, with_quota
from zombiescope.lab._starvers import starver
from zombiescope.lab._walker import walking
from zombiescope.lab._zombies import memory_folder
from zombiescope.recorder.short import record
from zombiescope.signs import cgroup_walker, cpu_throttling

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("memory_cgroups")]
SECONDS = 5.0
ATTEMPTS = 3


def test_a_throttled_cgroup_waits_as_long_as_schedstat_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a busy neighbour its thread waits too, beyond what the quota takes: so the best of three."""
    monkeypatch.setattr(cpu_throttling, "IDLE", 0.0)
    ratios = []
    for _ in range(ATTEMPTS):
        with throttled.run() as fault:
            pid = fault.says.split()[1]
            before, began = _waited(pid), time.monotonic()
            timeline = record(Host(), SECONDS, only={"cpu_throttling", "proc_stat"}).timeline()
            waited = (_waited(pid) - before) / (time.monotonic() - began)
        case = examine(timeline, signs={"cpu_throttling": cpu_throttling}, laws={}, questions={}, remedies={})
        (found,) = (it for it in case.findings if it.subject == fault.subject)
        ratios.append((found.harm.waited_cores or 0.0) / waited)
        if ratios[-1] == pytest.approx(1.0, abs=0.1):
            return
    pytest.fail(f"waited by its cgroup, of what schedstat says: {ratios}")


def test_of_two_faults_at_once_the_larger_comes_first_and_no_wait_is_counted_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two processes that want a core each: one gets 0.15 of it, the other 0.6, also beside a neighbour on a core."""
    monkeypatch.setattr(cpu_throttling, "IDLE", 0.0)
    said = []
    for _ in range(ATTEMPTS):
        with ExitStack() as both:
            pids = []
            for label, quota in (("little", 60_000), ("much", 15_000)):
                folder = both.enter_context(with_quota(label, quota))
                pids.append(str(both.enter_context(starver("spin"))))
                join(folder, int(pids[-1]))
            before, began = sum(map(_waited, pids)), time.monotonic()
            timeline = record(Host(), SECONDS, only={"cpu_throttling", "proc_stat"}).timeline()
            waited = (sum(map(_waited, pids)) - before) / (time.monotonic() - began)
        case = examine(timeline, signs={"cpu_throttling": cpu_throttling}, laws={}, questions={}, remedies={})
        ours = [it for it in case.root_causes if "/zslab-" in it.subject]
        counted = sum(case.cost_of(it).waited_cores or 0.0 for it in ours)
        names = [it.subject.removeprefix("cgroup:/zslab-").partition("-")[0] for it in ours]
        if names == ["much", "little"] and counted <= waited * 1.1:
            return
        said.append((names, counted, waited))
    pytest.fail(f"in this order, with so much waiting, of what schedstat says: {said}")


def test_a_walker_burns_the_cpu_time_that_it_used() -> None:
    core, ratios = max(os.sched_getaffinity(0)), []
    for _ in range(ATTEMPTS):
        try:
            with walking(os.path.join(memory_folder(), "memory.stat"), core=core) as pid:
                before, began = _ran(pid), time.monotonic()
                timeline = record(Host(), SECONDS, only={"proc_stat", "processes", "pressure"}, hz=99).timeline()
                ran = (_ran(pid) - before) / (time.monotonic() - began)
        except UserError as error:
            pytest.skip(CANNOT + str(error))
        case = examine(timeline, signs={"cgroup_walker": cgroup_walker}, laws={}, questions={}, remedies={})
        (found,) = (it for it in case.findings if it.subject.endswith(f"[{pid}]"))
        # What it does beside the walk is not burnt: the share of its own samples that are in it.
        taken = timeline.samples()
        own = taken.only(taken.pid == pid)
        ratios.append((found.harm.burnt_cores or 0.0) / (ran * len(own.where(walks)) / len(own)))
        if ratios[-1] == pytest.approx(1.0, abs=0.1):
            return
    pytest.fail(f"burnt, of what the walker used: {ratios}")


def _waited(pid: str) -> float:
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


def _ran(pid: int) -> float:
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9
