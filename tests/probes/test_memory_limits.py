"""memory_limits: who has a limit and how often it was hit, on v1 and v2, with few reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.probes.machine import MOUNTINFO, machine, psi, told, unseen

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.lab import _loads
from zombiescope.probes import memory_limits
from zombiescope.probes.memory_limits import parse_hits, parse_limit, parse_waiting

UNIFIED = "24 23 0:22 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
NONE = "9223372036854771712\n"
EVENTS = "low 0\nhigh 17\nmax 4062\noom 2\noom_kill 1\noom_group_kill 0\n"
OOM_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
POD = "kubepods/pod1"


def v1_node(root: Path, **files: str) -> Host:
    tree = {
        "memory.limit_in_bytes": NONE,
        "kubepods/memory.limit_in_bytes": NONE,
        f"{POD}/memory.limit_in_bytes": "67108864\n",
        f"{POD}/memory.failcnt": "4062\n",
        f"{POD}/memory.usage_in_bytes": "67104768\n",
        f"{POD}/memory.oom_control": OOM_CONTROL,
        "going/memory.limit_in_bytes": "4096\n",
    } | files
    at = "sys/fs/cgroup/memory"
    return machine(root, {"proc/self/mountinfo": MOUNTINFO, **{f"{at}/{name}": text for name, text in tree.items()}})


def v2_node(root: Path, **files: str) -> Host:
    tree = {
        f"{POD}/memory.max": "67108864\n",
        f"{POD}/memory.high": "max\n",
        f"{POD}/memory.events": EVENTS,
        f"{POD}/memory.events.local": "low 0\nhigh 1\nmax 7\noom 0\noom_kill 0\n",
        f"{POD}/memory.current": "67104768\n",
        f"{POD}/memory.pressure": psi(159_886_802, 12),
        f"{POD}/cgroup.stat": "nr_descendants 2\nnr_dying_descendants 3001\n",
        "system.slice/memory.max": "max\n",
        "system.slice/memory.high": "max\n",
        "user.slice/cgroup.stat": "nr_descendants 0\n",  # the controller is not switched on
    } | files
    at = "sys/fs/cgroup"
    return machine(root, {"proc/self/mountinfo": UNIFIED, **{f"{at}/{name}": text for name, text in tree.items()}})


def test_v1(tmp_path: Path) -> None:
    host = v1_node(tmp_path)
    assert told(memory_limits, host) == {
        ("cgroup_limit_hits_total", f"cgroup:/{POD}"): 4062,
        ("cgroup_memory_usage_bytes", f"cgroup:/{POD}"): 67104768,
        ("cgroup_memory_limit_bytes", f"cgroup:/{POD}"): 67108864,
        ("cgroup_oom_kills_total", f"cgroup:/{POD}"): 3,
        ("cgroups_with_memory_limit", "node"): 2,
    }
    assert set(unseen(memory_limits, host)) == {"cgroup_memory_stall_seconds_total", "cgroup_dead_below"}


def test_v2(tmp_path: Path) -> None:
    assert told(memory_limits, v2_node(tmp_path)) == {
        ("cgroup_limit_hits_total", f"cgroup:/{POD}"): 8,
        ("cgroup_memory_stall_seconds_total", f"cgroup:/{POD}"): 159.886802,
        ("cgroup_memory_usage_bytes", f"cgroup:/{POD}"): 67104768,
        ("cgroup_memory_limit_bytes", f"cgroup:/{POD}"): 67108864,
        ("cgroup_oom_kills_total", f"cgroup:/{POD}"): 1,
        ("cgroup_dead_below", f"cgroup:/{POD}"): 3001,
        ("cgroups_with_memory_limit", "node"): 1,
    }


def test_the_lower_of_two_limits_counts_and_older_kernels_have_one_file_of_events(tmp_path: Path) -> None:
    host = v2_node(tmp_path, **{f"{POD}/memory.high": "4096\n"})
    (tmp_path / "sys/fs/cgroup" / POD / "memory.events.local").unlink()
    found = told(memory_limits, host)
    assert found["cgroup_memory_limit_bytes", f"cgroup:/{POD}"] == 4096
    assert found["cgroup_limit_hits_total", f"cgroup:/{POD}"] == 4079


def test_without_psi_the_rest_is_told(tmp_path: Path) -> None:
    host = v2_node(tmp_path)
    (tmp_path / "sys/fs/cgroup" / POD / "memory.pressure").unlink()
    assert ("cgroup_limit_hits_total", f"cgroup:/{POD}") in told(memory_limits, host)
    assert "operation not supported" in unseen(memory_limits, host)["cgroup_memory_stall_seconds_total"]


def test_one_that_is_not_understood_is_blind_alone(tmp_path: Path) -> None:
    host = v1_node(tmp_path, **{"odd/memory.limit_in_bytes": "4096\n", "odd/memory.failcnt": "many\n"})
    assert ("cgroup_limit_hits_total", f"cgroup:/{POD}") in told(memory_limits, host)
    blind = {it.subject for it in memory_limits.read(host) if isinstance(it, Blind) and it.what.endswith("hits_total")}
    assert blind == {"cgroup:/odd"}


def test_what_does_not_change_is_not_read_again(tmp_path: Path) -> None:
    """Only hits make the rest worth a read."""
    v1_node(tmp_path)
    with memory_limits.watch(Host(str(tmp_path), live=False)) as look:
        first, second = ({it.what for it in look() if isinstance(it, Reading)} for _ in range(2))
        (tmp_path / "sys/fs/cgroup/memory" / POD / "memory.failcnt").write_text("4063\n")
        third = {it.what for it in look() if isinstance(it, Reading)}
    assert "cgroup_memory_usage_bytes" in first & third
    assert second == {"cgroup_limit_hits_total", "cgroups_with_memory_limit"}


def test_the_tree_is_walked_once_also_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = v1_node(tmp_path)
    with memory_limits.watch(host) as look:
        list(look())
        monkeypatch.setattr(memory_limits, "WALKED", 1)  # a second walk would fail
        assert list(look())
    with memory_limits.watch(host) as look:
        for _ in range(2):
            with pytest.raises(Unreadable, match="more than 1 folders"):
                list(look())


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "MOST", 1)
    assert "1 cgroups more" in unseen(memory_limits, v1_node(tmp_path))["cgroup_limit_hits_total"]


@pytest.mark.parametrize("text", ["", "-1\n", "many\n", "9" * 400])
def test_damaged_limits(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_limit(text)


def test_limits() -> None:
    assert parse_limit("67108864\n") == 67108864
    assert parse_limit("max\n") is None and parse_limit(NONE) is None and parse_limit("9223372036854710272\n") is None


@pytest.mark.parametrize("text", ["", "low 0\n", "max\n", "max -1\n", "max 1 2\n"])
def test_damaged_events(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_hits(text)


@pytest.mark.parametrize("text", ["", "full avg10=0 total=7\n", "some avg10=0.18\n", "some total=-1\n"])
def test_damaged_pressure(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_waiting(text)


@pytest.mark.kernel
@pytest.mark.usefixtures("memory_cgroups")
def test_a_real_cgroup_that_runs_into_its_limit() -> None:
    with _loads.limited("test-limits", 16 << 20) as folder, _loads.sparse_file("test-limits", 256 << 20) as path:
        subject = _loads.subject(folder)
        with memory_limits.watch(Host()) as look:
            hits = [_hits(look(), subject)]
            with _loads.load("stream", path, cgroup=folder):
                while hits[-1] < 100:  # the test's own time limit ends this
                    hits.append(_hits(look(), subject))
    assert hits[0] == 0 and hits == sorted(hits)


def _hits(seen: Iterable[Reading | Blind], subject: str) -> float:
    hits = (it for it in seen if isinstance(it, Reading) and it.what == memory_limits.HITS)
    return next(it.value for it in hits if it.subject == subject)
