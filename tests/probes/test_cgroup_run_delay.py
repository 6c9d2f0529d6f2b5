"""cgroup_run_delay: threads of real cgroups that wait for a core, against the kernel's own count."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.nodes import node
from tests.waiting import until

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.core.model import Span
from zombiescope.derived.histograms import times
from zombiescope.kernel import run_delays
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.kernel.run_delays import OTHERS, RunDelays
from zombiescope.probes import cgroup_run_delay

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: bpf(2) refuses everyone else"),
]
BUSY = ("sh", "-c", "while :; do :; done")
Group = Callable[[str], Path]


@pytest.fixture
def group() -> Iterator[Group]:
    """Makes cgroups of version 2, and removes them."""
    mount = next((it for it in cgroup_mounts(Host()) if it.version == 2), None)
    if mount is None:
        pytest.skip(CANNOT + "cgroup version 2 is not mounted")
    made: list[Path] = []

    def make(name: str) -> Path:
        made.append(Path(mount.path, f"zombiescope-test-{os.getpid()}-{name}"))
        made[-1].mkdir()
        return made[-1]

    yield make
    for folder in made:
        with suppress(OSError):
            folder.rmdir()


@pytest.fixture
def without_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does."""
    monkeypatch.setattr(cgroup_run_delay, "WAITS", 1e9)


@contextmanager
def busy(folder: Path) -> Iterator[int]:
    """A process of that cgroup that would use core 0 alone."""
    with subprocess.Popen(BUSY) as child:
        try:
            os.sched_setaffinity(child.pid, {0})
            (folder / "cgroup.procs").write_text(str(child.pid))
            yield child.pid
        finally:
            child.kill()


def has_waited(folder: Path) -> None:
    """Something of that cgroup has waited for its core, and ran again."""
    with busy(folder) as pid:
        before = run_delay(pid)
        until(lambda: run_delay(pid) > before)


def run_delay(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


@pytest.mark.usefixtures("without_rest")
def test_the_waits_of_a_cgroup_are_those_that_the_kernel_counts(group: Group) -> None:
    """Three loops on one core: each waits two thirds of the time."""
    one, other = group("one"), group("other")
    with ExitStack() as stack:
        pid, *_ = (stack.enter_context(busy(it)) for it in (one, other, other))
        look = stack.enter_context(cgroup_run_delay.watch(Host()))
        list(look())
        start, before = time.time(), run_delay(pid)
        time.sleep(3)
        rows = [it for it in look() if isinstance(it, Reading)]
        waited, end = run_delay(pid) - before, time.time()
    timeline = node(rows)
    found = times(timeline, cgroup_run_delay.GIVES[0], f"cgroup:/{one.name}", Span(start, end))
    assert found is not None, [it.subject for it in rows]
    # Only waits that have ended are counted, and the last one may still go on.
    assert waited > 1.0 and found.total == pytest.approx(waited, rel=0.1, abs=2 * found.longest.value)
    both = times(timeline, cgroup_run_delay.GIVES[0], f"cgroup:/{other.name}", Span(start, end))
    assert both is not None and both.total > 1.2 * found.total, "two wait more than one"


@pytest.mark.usefixtures("without_rest")
def test_many_cgroups_stay_few_readings_and_no_wait_is_lost(group: Group) -> None:
    folders = [group(f"many{number}") for number in range(cgroup_run_delay.MOST + 8)]
    with busy(group("neighbour")), cgroup_run_delay.watch(Host()) as look:
        list(look())
        for folder in folders:
            has_waited(folder)
        rows = [it for it in look() if isinstance(it, Reading)]
    assert len(rows) == cgroup_run_delay.MOST + 1 and rows[-1].subject == "cgroups:others"
    assert len({it.subject for it in rows}) == len(rows)
    assert max(it.value for it in rows) == rows[0].value


def test_cgroups_that_do_not_fit_into_the_table_are_counted_together(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_delays, "MOST_CGROUPS", 4)
    folders = [group(f"full{number}") for number in range(8)]
    with busy(group("neighbour")), RunDelays(most=1e9) as delays:
        for folder in folders:
            has_waited(folder)
        found = delays.read()
    assert found is not None
    by_id = {it.cgroup: it for it in found[1]}
    assert len(by_id) <= 4 and sum(by_id[OTHERS].counts) >= 4


def test_beyond_the_budget_the_programs_rest_and_then_go_on() -> None:
    with RunDelays(most=1e-6) as delays:
        naps()
        first = delays.read()
        assert first is not None and first[1] and delays.read() is None, "detached for a long time"
        time.sleep(1.2)
        delays._turns.rest_until = 1e-9  # that time is over
        assert delays.read() is None, "attached just now"
        naps()
        again = delays.read()
    # Who waited when the rest began did not wait as long as the rest.
    assert again is not None and again[1] and all(it.worst < 1.0 for it in again[1])


def naps() -> None:
    """Each ends with a wake-up."""
    for _ in range(50):
        time.sleep(0.001)


def test_no_cgroup_has_the_key_of_the_others(group: Group) -> None:
    assert group("id").stat().st_ino != OTHERS


def test_an_old_kernel_is_blind(tmp_path: Path) -> None:
    release = tmp_path / "proc/sys/kernel/osrelease"
    release.parent.mkdir(parents=True)
    release.write_text("5.15.0-1081-aws\n")
    host = Host(str(tmp_path), live=True)
    with pytest.raises(Unreadable, match=r"needs Linux 5\.19 or newer"), cgroup_run_delay.watch(host):
        pass


def test_while_they_rest_a_sample_is_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_run_delay, "WAITS", 1e-6)
    with cgroup_run_delay.watch(Host()) as look:
        naps()
        assert any(isinstance(it, Reading) for it in look())
        (blind,) = look()
    assert isinstance(blind, Blind) and "in a part of the time" in blind.why
