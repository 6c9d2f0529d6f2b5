"""What faults cost, on recordings in the kernel's own formats: a healthy node's files, with one thing changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.nodes import QUIET, T0
from tests.signs.test_oom_kill import killed, why

from zombiescope.core import Case, Host
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import healthy
from zombiescope.outputs._story import PROBLEM, headline
from zombiescope.outputs.json import shape
from zombiescope.recorder.loop import look
from zombiescope.recorder.tape import Tape

Change = Callable[[Path, float], None]  # the root, and how many seconds into the recording
CORES, USER_HZ = 2, 100


def recorded(folder: Path, *changes: Change, since: float = 0.0, up: float = 1592.0) -> Case:
    """Read by every probe at four moments; both cores are idle."""
    tape = Tape()
    for later in (0.0, 4.0, 8.0, 12.0):
        root = folder / f"at-{later:.0f}"
        shutil.copytree(QUIET, root)
        (root / "at").write_text(str(T0 + later))
        (root / "proc/uptime").write_text(f"{up + later:.2f} {CORES * (up + later):.2f}\n")
        stat = root / "proc/stat"
        stat.write_text("".join(_idle(line, later) for line in stat.read_text().splitlines(keepends=True)))
        for change in changes:
            change(root, later)
        for name, probe in healthy("probes").items():
            look(Host(str(root), live=False), name, probe, tape)
    return examine(tape.timeline(), since=since)


def _idle(line: str, later: float) -> str:
    name, *ticks = line.split()
    if not name.startswith("cpu") or name == "cpu":
        return line
    ticks[3] = str(int(ticks[3]) + round(USER_HZ * later))
    return " ".join([name, *ticks]) + "\n"


def dying(first: int, a_second: float) -> Change:
    """The memory cgroups that the kernel keeps: the four with folders, and these."""

    def change(root: Path, later: float) -> None:
        path, known = root / "proc/cgroups", 4 + first + round(a_second * later)
        path.write_text(path.read_text().replace("memory\t4\t9\t1", f"memory\t4\t{known}\t1"))

    return change


def throttled(stopped: float, share: float = 0.9) -> Change:
    """A cgroup of v1 with a quota of a tenth of a core, and one thread that wants a whole one."""

    def change(root: Path, later: float) -> None:
        group = root / "sys/fs/cgroup/cpu/pod1"
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text("10000\n")
        (group / "cpu.cfs_period_us").write_text("100000\n")
        periods = round(100 + 10 * later)
        (group / "cpu.stat").write_text(
            f"nr_periods {periods}\nnr_throttled {round(periods * share)}\n"
            f"throttled_time {round((9 + stopped * later) * 1e9)}\nnr_bursts 0\nburst_time 0\n"
        )
        process = root / "proc/4242"
        process.mkdir()
        ran, waited = 1 + 0.1 * later, 9 + stopped * later
        (process / "schedstat").write_text(f"{round(ran * 1e9)} {round(waited * 1e9)} {periods}\n")

    return change


def logged(ago: float, *texts: str) -> Change:
    """Lines of the kernel's log, so many seconds before the recording began."""

    def change(root: Path, later: float) -> None:
        if later:
            return  # a copy holds the whole log: read again, it would say all of it again
        path = root / "dev/kmsg"
        up = float((root / "proc/uptime").read_text().split()[0])
        at = round((up - ago) * 1e6)
        lines = "".join(f"3,{900 + place},{at + place},-;{text}\n" for place, text in enumerate(texts))
        path.write_text(path.read_text() + lines)

    return change


def test_a_throttled_cgroup_waits_as_long_as_schedstat_says(tmp_path: Path) -> None:
    found = recorded(tmp_path, throttled(0.88))
    (root,) = found.root_causes
    assert (root.sign, root.subject) == ("cpu_throttling", "cgroup:/pod1")
    start, end = (float((tmp_path / f"at-{at}/proc/4242/schedstat").read_text().split()[1]) / 1e9 for at in (0, 12))
    assert found.cost_of(root).waited_cores == pytest.approx((end - start) / 12, rel=0.1)
    assert found.cost_of(root).says.startswith("costs 0.88 of 2 cores (/pod1 waits 0.88)")


def test_idle_dying_cgroups_are_noted(tmp_path: Path) -> None:
    found = recorded(tmp_path, dying(5_000, 0.0))
    assert not found.root_causes and [it.sign for it in found.noted] == ["zombie_cgroups"]
    harm = found.noted[0].harm
    assert (harm.soon_seconds, harm.unknown) == (None, ()) and 0 < (harm.held_bytes or 0) < 0.01 * 24_682_416 * 1024


def test_growing_ones_are_accused_with_the_time_that_is_left(tmp_path: Path) -> None:
    found = recorded(tmp_path, dying(5_000, 10.0))
    assert headline(found)[0] == PROBLEM
    (leak,) = found.problems
    harm = leak.harm
    assert leak.sign == "zombie_cgroups" and harm.soon_seconds == pytest.approx((70_000 - 5_120) / 10, rel=0.01)
    assert "70,000 dying cgroups in 108 min (91 min to 2.2 h)" in harm.says


@pytest.mark.parametrize(("up", "unsure"), [(60 * 86400.0, False), (120.0, True)], ids=["up for long", "just booted"])
def test_a_few_more_are_weighed_by_what_has_gathered_since_boot(up: float, unsure: bool, tmp_path: Path) -> None:
    """Four more in twelve seconds would be 70,000 in two days; sixty days left 5,000. A young node cannot say."""
    found = recorded(tmp_path, dying(5_000, 1 / 3), up=up)
    assert not found.root_causes and bool(found.unsure) is unsure and bool(found.noted) is not unsure


def test_a_kill_before_the_look_is_past(tmp_path: Path) -> None:
    found = recorded(tmp_path / "now", logged(500.0, why(4242), killed(4242)))
    assert not found.problems and [it.sign for it in found.past] == ["oom_kill"]
    told = shape(found)["past"][0]
    assert told["subject"] == "cgroup:/kubepods/pod1" and told["ago_seconds"] == pytest.approx(512, abs=2)
    since = recorded(tmp_path / "since", logged(500.0, why(4242), killed(4242)), since=3600.0)
    assert [it.sign for it in since.root_causes] == ["oom_kill"] and not since.past
    assert dict(since.cost_of(since.root_causes[0]).broken) == {"kills": 1}


def test_a_kill_before_the_look_does_not_hide_what_goes_on(tmp_path: Path) -> None:
    changes = (logged(500.0, why(4242), killed(4242)), throttled(0.5))
    found = recorded(tmp_path / "now", *changes)
    assert [it.sign for it in found.root_causes] == ["cpu_throttling"]
    assert [it.sign for it in found.past] == ["oom_kill"]
    since = recorded(tmp_path / "since", *changes, since=3600.0)
    assert [it.sign for it in since.root_causes] == ["cpu_throttling", "oom_kill"], "and never outranks it"
