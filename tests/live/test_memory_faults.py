"""Memory, interrupt and table faults that really happen are named, with their chains; healthy loads accuse nobody."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.conftest import CANNOT, Run

from zombiescope.core import Host, UserError
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab import (
    _loads,
    idle_zombies_few,
    iperf_loopback,
    irq_pile_up,
    mounts,
    page_cache_stream,
    page_faults,
    reclaim_storm,
    slow_reclaim,
    throttled,
)
from zombiescope.lab._scenario import missing
from zombiescope.probes import cpu_throttling, pressure
from zombiescope.questions import reclaim_explains_throttling
from zombiescope.recorder.short import record

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("memory_cgroups")]


# Others' tests may run at the same time and make their own faults: only what these scenarios can cause is judged.
OURS = {"direct_reclaim", "page_fault_storm", "irq_pile_up", "softirq_storm", "slab_bloat", "mount_explosion"}


def diagnosed(zombiescope: Run, scenario: ModuleType) -> tuple[dict[str, Any], str]:
    """What the installed command says while the scenario happens, and whom it should name."""
    if unmet := missing(scenario.NEEDS):
        pytest.skip(CANNOT + "; ".join(unmet))
    try:
        with scenario.run() as fault:
            done = zombiescope("diagnose", "--format", "json", "--seconds", str(scenario.SECONDS))
    except UserError as error:
        pytest.skip(CANNOT + str(error))
    shape: dict[str, Any] = json.loads(done.stdout)
    accused = OURS.intersection(scenario.TRUTH.silent, [it["sign"] for it in shape["findings"]])
    assert not accused, [it["says"] for it in shape["findings"] if it["sign"] in accused]
    assert "broken" not in {it["state"] for it in shape["verdicts"] if it["sign"] in OURS}
    return shape, fault.subject


@pytest.mark.parametrize(
    "scenario", [reclaim_storm, slow_reclaim, page_faults, irq_pile_up, mounts], ids=lambda it: it.__name__[16:]
)
def test_a_fault_is_named_with_its_chain(zombiescope: Run, scenario: ModuleType) -> None:
    wanted = list(scenario.TRUTH.chain)
    for _ in range(2):  # a machine that others use meanwhile may have no core to spare: then once more
        shape, subject = diagnosed(zombiescope, scenario)
        own = [chain for chain in shape["chains"] if subject in {it["subject"] for it in chain}]
        if wanted in [[it["sign"] for it in chain[: len(wanted)]] for chain in own]:
            break
    else:
        verdicts = {it["sign"]: it["says"] for it in shape["verdicts"] if it["sign"] in wanted}
        pytest.fail(f"{subject}: {wanted} is not among {shape['chains']}; {verdicts}")
    assert scenario.TRUTH.names(subject)


@pytest.mark.parametrize(
    "scenario", [page_cache_stream, iperf_loopback, idle_zombies_few], ids=lambda it: it.__name__[16:]
)
def test_a_healthy_load_accuses_nobody(zombiescope: Run, scenario: ModuleType) -> None:
    shape, _ = diagnosed(zombiescope, scenario)
    assert {it["state"] for it in shape["verdicts"] if it["sign"] in OURS} == {"clear"}


PROBES = {"cpu_throttling", "pressure", "memory_limits", "vmstat", "proc_stat"}


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many intervals within a short test."""
    monkeypatch.setattr(cpu_throttling, "EVERY", 0.5)
    monkeypatch.setattr(pressure, "EVERY", 0.5)


@pytest.mark.usefixtures("often")
def test_a_quota_used_up_by_ordinary_work_is_not_explained_by_reclaim() -> None:
    with throttled.run() as fault:
        timeline = record(Host(), 4.0, only=PROBES).timeline()
    answer = reclaim_explains_throttling.answer(timeline)
    assert answer.state == "refuted" and "never reclaimed" in answer.says
    assert fault.subject in {it.subject for it in answer.evidence}


@pytest.mark.usefixtures("often")
def test_a_quota_used_up_by_reclaim_is_explained_by_it() -> None:
    with (
        _loads.limited("tied", 16 << 20) as folder,
        quota(folder, 0.3),
        _loads.sparse_file("tied", 1 << 30) as path,
        _loads.load("wander", path, "0", cgroup=folder) as pid,
        now_and_then(pid),
    ):
        Path(_cpu_folder(folder), "cgroup.procs").write_text(str(pid))
        timeline = record(Host(), 14.0, only=PROBES).timeline()
    answer = reclaim_explains_throttling.answer(timeline)
    assert answer.state == "supported", answer.says
    assert "s a second with reclaim and" in answer.says


def _cpu_folder(memory_folder: str) -> str:
    """The cgroup of the same name where the cpu controller is."""
    mounted = cgroup_mounts(Host())
    found = [it for it in mounted if "cpu" in it.controllers] or [it for it in mounted if it.version == 2]
    if not found:
        pytest.skip(f"{CANNOT}no cpu controller is mounted")
    return os.path.join(found[0].path, os.path.basename(memory_folder))


@contextmanager
def quota(memory_folder: str, share: float) -> Iterator[None]:
    folder = _cpu_folder(memory_folder)
    made = not os.path.exists(folder)
    if made:
        os.mkdir(folder)
    try:
        if os.path.exists(f"{folder}/cpu.max"):
            Path(folder, "cpu.max").write_text(f"{round(share * 100_000)} 100000")
        else:
            Path(folder, "cpu.cfs_quota_us").write_text(str(round(share * 100_000)))
        yield
    finally:
        if made:
            _loads.remove(folder)


@contextmanager
def now_and_then(pid: int) -> Iterator[None]:
    """The process runs for two seconds, rests for two, and so on."""
    done = threading.Event()

    def conduct() -> None:
        for order in (signal.SIGSTOP, signal.SIGCONT) * 60:
            os.kill(pid, order)
            if done.wait(2.0):
                return

    conductor = threading.Thread(target=conduct)
    conductor.start()
    try:
        yield
    finally:
        done.set()
        conductor.join()
