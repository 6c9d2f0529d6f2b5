"""The other rungs of the purge: advice, reclaim, dropping all caches; who may not, and what is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.treatment.pinned_cgroups import NAME, Parent, below, dead, device_of, leak, undisturbed
from tests.waiting import until

from zombiescope.core.errors import Unreadable, UserError
from zombiescope.kernel.file_handles import Handles
from zombiescope.treatment import limited_write
from zombiescope.treatment.purge import Freed, drop_caches, drop_pinning_files, reclaim, unlink_advice

pytestmark = pytest.mark.kernel
AS_NOBODY = """
import os
from zombiescope.core.errors import Unreadable
from zombiescope.treatment import limited_write, purge
from zombiescope.kernel.file_handles import Handles
os.setresuid(65534, 65534, 65534)
try:
    {}
except Unreadable as no:
    print(no)
"""


def test_only_files_are_opened_and_nothing_stays_open(disk: Path) -> None:
    os.mkfifo(disk / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    with Handles() as handles, pytest.raises(Unreadable):
        handles.open(device_of(disk), (disk / "pipe").stat().st_ino, 0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_who_may_not_is_told_what_is_missing(disk: Path) -> None:
    def told(does: str) -> str:
        argv = [sys.executable, "-c", AS_NOBODY.format(does)]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout

    assert "needs CAP_DAC_READ_SEARCH" in told(f"Handles().open({device_of(disk)}, {disk.stat().st_ino}, 0)")
    assert "denied" in told("limited_write.write(purge.DROP_CACHES, '1', 10)").lower()
    assert "needs CAP_BPF" in told("purge.drop_caches(whole_node=True)")


def test_tmpfs_is_told_and_never_touched_nor_forced(shm: Path, parent: Parent) -> None:
    mine = parent("advice")
    leak(mine, shm, "write", 23)
    advice = unlink_advice(below(mine))
    assert advice.why_left == (f"23 by {shm}: remove or truncate it",)
    with pytest.raises(UserError, match="whole_node=True"):
        drop_caches(below(mine))
    rungs = [advice, drop_pinning_files(below(mine)), drop_caches(below(mine), whole_node=True)]
    if len(Path("/proc/swaps").read_text().splitlines()) == 1:
        rungs.append(reclaim(below(mine)))
        assert any(words in rungs[-1].why_left[0] for words in ("cannot be emptied", "no zombie there has pages"))
    for freed in rungs:  # they see that it would be for nothing, and do nothing
        assert (freed.freed, freed.left, freed.evidence) == (0, 23, ()) and freed.why_left
    shm.unlink()
    until(lambda: not dead(mine))  # else the advice was wrong


def test_reclaim_frees_what_lies_on_disk_and_spares_the_living(disk: Path, parent: Parent) -> None:
    mine = parent("reclaim")

    def look(attempt: int, allow_live: bool = False) -> Freed | None:
        leak(mine, disk / f"file-{attempt}", "write", 97)
        freed = reclaim(below(mine), allow_live=allow_live)
        return freed if freed.freed + freed.left >= 97 else None

    freed = undisturbed(look)
    assert freed.left <= 1 and f" | tee {mine}/memory." in freed.evidence[0], freed
    (mine / "inner").mkdir()
    lives = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    try:
        (mine / "inner" / "cgroup.procs").write_text(str(lives.pid))
        refused = undisturbed(lambda attempt: look(10 + attempt))
        assert refused.left >= 90 and not refused.evidence and "processes run there" in refused.why_left[0]
        assert undisturbed(lambda attempt: look(20 + attempt, allow_live=True)).left <= 1
    finally:
        lives.kill()
        lives.wait()


def test_a_write_that_lasts_is_stopped_and_one_refused_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "unread")
    started = time.monotonic()
    assert limited_write.write(f"{tmp_path}/unread", "0", 0.3).endswith("/unread (stopped: time limit reached)")
    assert time.monotonic() - started >= 0.3
    with pytest.raises(Unreadable, match="no such file or directory"):
        limited_write.write(f"{tmp_path}/absent", "0", 10)


@pytest.mark.parametrize("rung", [drop_pinning_files, unlink_advice, reclaim])
def test_a_scope_without_dead_is_no_error(rung: Callable[[str], Freed]) -> None:
    freed = rung(f"/{NAME}/none")
    assert (freed.freed, freed.left, freed.why_left) == (0, 0, ())
    with pytest.raises(UserError, match="begins with /"):
        rung("kubepods")
