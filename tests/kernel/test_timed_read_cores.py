"""The timed read keeps off cores that are somebody's own, and never waits forever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zombiescope.core import Host, Unreadable
from zombiescope.kernel import timed_read
from zombiescope.kernel.timed_read import quietest_core, reserved_cores

CORES = sorted(os.sched_getaffinity(0))
RUNS = "1 (a) b) R 0 1 1 0 -1 {flags} " + "0 " * 29 + "{core} {priority} 1 0\n"


def machine(root: Path, *, isolated: str = "", nohz: str = " (null)", stat: str = "") -> Host:
    folder = root / "sys/devices/system/cpu"
    folder.mkdir(parents=True)
    (folder / "isolated").write_text(f"{isolated}\n")
    (folder / "nohz_full").write_text(f"{nohz}\n")
    (root / "proc/77").mkdir(parents=True)
    (root / "proc/77/stat").write_text(stat)
    return Host(str(root), live=False)


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
@pytest.mark.parametrize("how", ["isolated", "nohz", "realtime"])
def test_never_on_a_core_that_is_somebody_s_own(tmp_path: Path, how: str) -> None:
    last = CORES[-1]
    told = {
        "isolated": {"isolated": str(last)},
        "nohz": {"nohz": f"{last}"},
        "realtime": {"stat": RUNS.format(flags=0, core=last, priority=50)},
    }[how]
    assert quietest_core(machine(tmp_path / "plain")) == last, "or it tests nothing"
    assert quietest_core(machine(tmp_path / "told", **told)) == CORES[-2]


def test_a_kernel_thread_or_an_ordinary_one_does_not_count(tmp_path: Path) -> None:
    for number, (flags, priority) in enumerate(((0x200000, 99), (0, 0))):
        stat = RUNS.format(flags=flags, core=CORES[-1], priority=priority)
        assert quietest_core(machine(tmp_path / str(number), stat=stat)) == CORES[-1]


def test_where_no_core_is_left_it_is_blind(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="every core that we may use is isolated"):
        quietest_core(machine(tmp_path, isolated=f"0-{CORES[-1]}"))
    assert reserved_cores(machine(tmp_path / "x", isolated="0-1", nohz="3")) == {0, 1, 3}


def test_a_read_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(timed_read, "LIMIT", 0.2)
    with pytest.raises(Unreadable, match=r"not read within 0\.2 s"):
        timed_read.timed_read(str(tmp_path / "pipe"), CORES[0])
    os.close(os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK))  # lets the thread end
