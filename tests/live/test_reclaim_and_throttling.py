"""Does reclaim explain throttling? A quota used up by ordinary work refutes it, one used up by reclaim supports it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.meanwhile import meanwhile

from zombiescope.core import Host
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab import _loads, throttled
from zombiescope.lab._cgroups import remove
from zombiescope.questions import reclaim_explains_throttling
from zombiescope.recorder.short import record

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("memory_cgroups")]
PROBES = {"cpu_throttling", "pressure", "memory_limits", "vmstat", "proc_stat"}


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
        timeline = record(Host(), 12.0, only=PROBES).timeline()
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
            remove(folder)


def now_and_then(pid: int) -> AbstractContextManager[None]:
    """The process rests for a second, runs for one, and so on."""

    def conduct(done: threading.Event) -> None:
        for order in (signal.SIGSTOP, signal.SIGCONT) * 60:
            os.kill(pid, order)
            if done.wait(1.0):
                return

    return meanwhile(conduct)
