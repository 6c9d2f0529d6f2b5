"""cpu_throttling: v1 and v2, only those with a quota, and a real one that is used up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.probes.machine import MOUNTINFO, damage_in, machine, told, unseen
from tests.waiting import until

from zombiescope.core import Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.mounts import CgroupMount, cgroup_mounts
from zombiescope.probes import cpu_throttling
from zombiescope.probes.cpu_throttling import CpuStat, cores_of, has_quota, parse

V1 = "nr_periods 5049\nnr_throttled 5033\nthrottled_time 453251177000\n"
V1_NEW = V1 + "nr_bursts 0\nburst_time 0\n"  # since v5.14
V2 = (
    "usage_usec 5167232\nuser_usec 5156211\nsystem_usec 11021\nnice_usec 0\ncore_sched.force_idle_usec 0\n"
    "nr_periods 5049\nnr_throttled 5033\nthrottled_usec 453251177\nnr_bursts 0\nburst_usec 0\n"
)
UNIFIED = "24 23 0:22 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
POD = "kubepods/burstable/pod1"


def v1_node(root: Path, **files: str) -> Host:
    cpu = "sys/fs/cgroup/cpu,cpuacct"
    tree = {
        "cpu.cfs_quota_us": "-1\n",
        "cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
        "kubepods/cpu.cfs_quota_us": "-1\n",
        f"{POD}/cpu.cfs_quota_us": "20000\n",
        f"{POD}/cpu.cfs_period_us": "100000\n",
        f"{POD}/cpu.stat": V1,
        "idle/cpu.cfs_quota_us": "20000\n",
        "idle/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
        "going/cpu.cfs_quota_us": "20000\n",
    } | files
    return machine(root, {"proc/self/mountinfo": MOUNTINFO, **{f"{cpu}/{name}": text for name, text in tree.items()}})


EXPECTED = {
    ("cgroup_throttled_seconds_total", f"cgroup:/{POD}"): 453.251177,
    ("cgroup_throttled_periods_total", f"cgroup:/{POD}"): 5033,
    ("cgroup_periods_total", f"cgroup:/{POD}"): 5049,
    ("cgroup_cpu_quota_cores", f"cgroup:/{POD}"): 0.2,
}


@pytest.mark.parametrize("text", [V1, V1_NEW, V2])
def test_parse(text: str) -> None:
    assert parse(text) == CpuStat(5049, 5033, 453.251177)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("nr_periods 5\nnr_throttled\n", 2),
        ("nr_periods 5\nnr_throttled 1\nthrottled_time -1\n", 3),
        ("nr_periods 5\nnr_throttled 1\n", 2),
        (f"nr_periods {'9' * 400}\n", 1),
        (V1 + "\x0c\n", 4),
    ],
)
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse, text, "/sys/fs/cgroup/a/cpu.stat") == ("/sys/fs/cgroup/a/cpu.stat", line)


def test_quotas() -> None:
    assert has_quota("20000\n") and has_quota("20000 100000\n")
    assert not has_quota("-1\n") and not has_quota("max 100000\n")
    for text in ("", "\n", "some 100000\n", "-2\n"):
        with pytest.raises(Unparsable):
            has_quota(text)


def test_cores() -> None:
    assert cores_of("20000 100000\n") == cores_of("20000\n 100000\n") == 0.2
    assert [cores_of(text) for text in ("", "20000\n ", "max 100000\n", "20000 0\n", "20000 -1\n")] == [0.0] * 5


def test_a_quota_without_its_period_is_told_as_far_as_it_goes(tmp_path: Path) -> None:
    host = v1_node(tmp_path, **{f"{POD}/cpu.cfs_period_us": "\n"})
    assert ("cgroup_cpu_quota_cores", f"cgroup:/{POD}") not in told(cpu_throttling, host)
    assert unseen(cpu_throttling, host) == {"cgroup_cpu_quota_cores": "shows no period"}


def test_v1(tmp_path: Path) -> None:
    assert told(cpu_throttling, v1_node(tmp_path)) == EXPECTED | {("cgroups_with_quota", "node"): 3}


def test_v2(tmp_path: Path) -> None:
    files = {
        "cpu.stat": V2,  # the root counts, but has no quota
        f"{POD}/cpu.max": "20000 100000\n",
        f"{POD}/cpu.stat": V2,
        "system.slice/cpu.max": "max 100000\n",
        "system.slice/cpu.stat": V2,
        "user.slice/cpu.stat": "usage_usec 5\n",  # the controller is not switched on
    }
    host = machine(
        tmp_path,
        {"proc/self/mountinfo": UNIFIED, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}},
    )
    assert told(cpu_throttling, host) == EXPECTED | {("cgroups_with_quota", "node"): 1}


def test_a_container_sees_its_own_quota(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/cpu.max": "20000 100000\n", "sys/fs/cgroup/cpu.stat": V2}
    host = machine(tmp_path, {"proc/self/mountinfo": UNIFIED, **files})
    assert told(cpu_throttling, host)["cgroup_periods_total", "cgroup:/"] == 5049


def test_one_that_is_not_understood_is_blind_alone(tmp_path: Path) -> None:
    host = v1_node(tmp_path, **{"idle/cpu.stat": "nr_periods many\n"})
    assert told(cpu_throttling, host) == EXPECTED | {("cgroups_with_quota", "node"): 3}
    assert set(unseen(cpu_throttling, host)) == set(cpu_throttling.GIVES[:3])


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = v1_node(tmp_path)
    monkeypatch.setattr(cpu_throttling, "MOST", 1)
    assert "2 cgroups more" in unseen(cpu_throttling, host)["cgroup_periods_total"]
    monkeypatch.setattr(cpu_throttling, "WALKED", 2)
    with pytest.raises(Unreadable, match="more than 2 folders"):
        list(cpu_throttling.read(host))


@pytest.mark.parametrize("mountinfo", ["", "22 27 0:21 / /proc rw - proc proc rw\n"])
def test_nothing_is_mounted(tmp_path: Path, mountinfo: str) -> None:
    with pytest.raises(Unreadable, match="no hierarchy with the cpu controller"):
        list(cpu_throttling.read(machine(tmp_path, {"proc/self/mountinfo": mountinfo})))


def test_a_mount_that_cannot_be_seen(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="/sys/fs/cgroup"):
        list(cpu_throttling.read(machine(tmp_path, {"proc/self/mountinfo": UNIFIED})))


class Counting(Host):
    """A door that counts walks."""

    walks = 0

    def tree(self, path: str, *, most: int = 10_000) -> dict[str, int]:
        self.walks += 1
        return super().tree(path, most=most)


def test_the_tree_is_not_walked_on_every_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    v1_node(tmp_path)
    host = Counting(str(tmp_path), live=False)
    with cpu_throttling.watch(host) as look:
        assert [len(list(look())) for _ in range(3)] == [5, 5, 5]
    assert host.walks == 1
    monkeypatch.setattr(cpu_throttling, "WALKED", 2)
    with cpu_throttling.watch(host) as look:  # nor after a walk in vain
        for _ in range(3):
            with pytest.raises(Unreadable, match="more than 2 folders"):
                list(look())
    assert host.walks == 2


@pytest.fixture
def limited() -> Iterator[tuple[Path, CgroupMount]]:
    """A real cgroup that may use a tenth of a core."""
    mounts = cgroup_mounts(Host())
    bound = [it for it in mounts if "cpu" in it.controllers] or [it for it in mounts if it.version == 2]
    if not bound:
        pytest.skip(f"{CANNOT}no cpu controller is mounted")
    folder = Path(bound[0].path) / f"zombiescope-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"{CANNOT}make a cgroup: {error.strerror}")
    try:
        if bound[0].version == 2:
            if not (folder / "cpu.max").exists():
                pytest.skip(f"{CANNOT}the cpu controller is not switched on for children of the root")
            (folder / "cpu.max").write_text("10000 100000")
        else:
            (folder / "cpu.cfs_period_us").write_text("100000")
            (folder / "cpu.cfs_quota_us").write_text("10000")
        yield folder, bound[0]
    finally:
        for _ in range(100):
            try:
                folder.rmdir()
                break
            except OSError:  # the child is still leaving
                time.sleep(0.05)


def _join(folder: Path) -> str:
    return f"open({str(folder / 'cgroup.procs')!r}, 'w').write('0')\nwhile True: pass"


@pytest.mark.kernel
def test_a_cgroup_that_uses_up_its_quota(limited: tuple[Path, CgroupMount]) -> None:
    folder, _mount = limited
    subject = f"cgroup:/{folder.name}"

    def seen(look: Iterator[object]) -> dict[str, float]:
        return {it.what: it.value for it in look if isinstance(it, Reading) and it.subject == subject}

    def risen(what: str) -> float:
        return second[what] - first[what]

    first: dict[str, float] = {}
    second: dict[str, float] = {}
    with cpu_throttling.watch(Host()) as look:
        child = subprocess.Popen([sys.executable, "-c", _join(folder)])
        try:
            until(lambda: first.update(seen(look())) or first)
            until(lambda: second.update(seen(look())) or risen("cgroup_throttled_seconds_total") > 0.5)
        finally:
            child.kill()
            child.wait()
    assert risen("cgroup_throttled_periods_total") > 0
    assert second["cgroup_periods_total"] >= second["cgroup_throttled_periods_total"]
