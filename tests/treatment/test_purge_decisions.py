"""What a purge counts, leaves alone and refuses, decided on walks that are written down: nothing is freed here."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zombiescope.core import Unreadable, UserError
from zombiescope.kernel.memcg_records import MemoryCgroup, Pin
from zombiescope.kernel.memcg_walk import Walk
from zombiescope.treatment import purge
from zombiescope.treatment.limited_write import write
from zombiescope.treatment.purge import (
    _PAGE,
    _Count,
    _live_ancestors,
    _refuse_processes,
    _refuse_unreclaimable,
    _shortened,
    drop_caches,
    drop_pinning_files,
    reclaim,
    unlink_advice,
)
from zombiescope.treatment.purge_command import SHOWN, _most

ROOT = MemoryCgroup(
    serial=1,
    parent_serial=None,
    css_id=1,
    online=True,
    dying=False,
    references=None,
    inode=1,
    level=0,
    name="",
    path="",
    children=9,
    memory_pages=0,
    swap_pages=0,
    kmem_pages=0,
    socket_pages=0,
    anon_pages=0,
    file_pages=0,
    unevictable_pages=0,
    pin=None,
)
FILE = Pin(
    kind="page cache",
    mapped=0,
    device=(0, 0),
    inode=7,
    generation=1,
    deleted=False,
    directory="logs",
    name="x.log",
)
SHMEM = replace(FILE, kind="shmem")


def live(serial: int, path: str, parent: int = 1, **rest: Any) -> MemoryCgroup:
    return replace(ROOT, serial=serial, parent_serial=parent, path=path, level=path.count("/"), inode=serial, **rest)


def dead(serial: int, path: str, parent: int = 1, pin: Pin | None = FILE, **rest: Any) -> MemoryCgroup:
    return replace(live(serial, path, parent, **rest), online=False, dying=True, pin=pin)


def looks(*walks: Sequence[MemoryCgroup], version: int = 2) -> Callable[[], Walk]:
    """One walk after the other; the last again and again."""
    left = list(walks)

    def look() -> Walk:
        its = left.pop(0) if len(left) > 1 else left[0]
        cost = {"restarts": 0, "batches": 1, "kernel_seconds": 0.0, "longest_batch_seconds": 0.0, "seconds": 0.0}
        return Walk(cgroups=[ROOT, *its], version=version, **cost)  # type: ignore[arg-type]

    return look


def test_it_waits_while_workers_release_some_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is released after each third walk: each time the wait begins anew."""
    monkeypatch.setattr(purge, "_CALM", 1.5)
    gone = [dead(serial, f"/x{serial}", pin=None) for serial in (3, 4, 5)]
    walks = [gone[: max(3 - number // 3, 1)] for number in range(20)]
    count = purge._Count("/", looks(*walks))
    count.settle()
    assert len(count.dead) == 1
    assert count.seconds >= 0.6 + 1.5, "till the second is released, and as long after it"


TREE = [
    live(2, "/a"),
    dead(3, "/a/x", 2, SHMEM),
    dead(4, "/ab", pin=SHMEM),
    dead(5, "/a/y/z", 3, SHMEM),
    dead(6, "/b", pin=None),
]


@pytest.mark.parametrize(
    ("scope", "left"), [("/", 4), ("/a", 2), ("/a/", 2), ("/a/x", 1), ("/ab", 1), ("/b", 1), ("/c", 0), ("/a/y", 1)]
)
def test_a_scope_is_a_path_and_all_below_it(scope: str, left: int) -> None:
    done = unlink_advice(scope, look=looks(TREE))
    assert (done.freed, done.left, done.evidence) == (0, left, ())
    assert unlink_advice(lambda it: it.serial == 6, look=looks(TREE)).left == 1


def test_a_scope_that_is_no_path_is_a_mistake() -> None:
    with pytest.raises(UserError, match="begins with /"):
        unlink_advice("a", look=looks(TREE))


def test_advice_names_files_of_tmpfs_first_and_what_else_is_left() -> None:
    first, *others = unlink_advice("/", look=looks([*TREE, dead(7, "/c")])).why_left
    assert first.startswith("3 by logs/x.log: not mounted here")
    assert len(others) == 2 and any("not in tmpfs" in it for it in others)


def test_freed_are_those_gone_and_what_died_since_is_in_neither() -> None:
    later = [it for it in TREE if it.serial != 4] + [dead(9, "/new")]
    count = _Count("/", looks(TREE, later))
    count.settle()
    done = count.freed("x", (), [])
    assert (done.freed, done.left) == (1, 3) and done.seconds > 0.5
    nothing = _Count("/", looks([live(2, "/a")]))
    nothing.settle()
    assert (nothing.freed("x", (), []).left, nothing.seconds < 0.5) == (0, True), "there is nothing to wait for"


def test_the_cache_of_the_whole_node_is_dropped_on_confirmation_and_never_in_vain() -> None:
    with pytest.raises(UserError, match="whole_node=True"):
        drop_caches("/", look=looks(TREE))
    pinned = [it for it in TREE if it.pin is not None]
    done = drop_caches("/", whole_node=True, look=looks(pinned))
    assert done.evidence == () and done.left == 3, "no cached page holds one of them"


def test_a_file_that_is_mapped_or_not_on_disk_is_not_tried() -> None:
    mapped = [dead(3, "/a", pin=replace(FILE, mapped=1)), dead(4, "/b", pin=SHMEM), dead(5, "/c", pin=None)]
    done = drop_pinning_files("/", look=looks(mapped))
    assert done.evidence == () and (done.freed, done.left) == (0, 3)
    assert any("mapped: a running process uses it" in it for it in done.why_left)
    assert any("only removing the file helps" in it for it in done.why_left)


def test_the_nearest_live_cgroup_above_and_never_the_root() -> None:
    deep = [live(2, "/a"), dead(3, "/a/x", 2), dead(4, "/a/x/y", 3), dead(5, "/z", 99), dead(6, "/top")]
    above = _live_ancestors(_Count("/", looks(deep)))
    assert {serial: it.serial for serial, it in above.items()} == {3: 2, 4: 2, 5: 5, 6: 1}
    done = reclaim("/top", look=looks(deep))
    assert done.evidence == () and done.why_left == ("1: the root cgroup: reclaim there would hit the whole node",)
    hidden = reclaim("/a", look=looks([replace(it, path=f"/no-such{it.path}") for it in deep]))
    assert hidden.left == 0
    unseen = reclaim("/", look=looks([live(2, "/no such cgroup"), dead(3, "/no such cgroup/x", 2, file_pages=1)]))
    assert unseen.evidence == () and "its folder is not visible here" in unseen.why_left[0]


@pytest.mark.parametrize(
    ("zombie", "swap", "hierarchy", "why"),
    [
        (dead(3, "/a", file_pages=9), 0, "1", ""),
        (dead(3, "/a", unevictable_pages=1), 1 << 30, "1", "1 locked pages"),
        (dead(3, "/a", anon_pages=2), 2 * _PAGE, "1", ""),
        (dead(3, "/a", anon_pages=2), 2 * _PAGE - 1, "1", "2 pages in tmpfs or anonymous memory, free swap for 1"),
        (dead(3, "/a", file_pages=9), 0, "0", "use_hierarchy is 0"),
    ],
)
def test_what_cannot_be_emptied_is_not_tried(
    tmp_path: Path, zombie: MemoryCgroup, swap: int, hierarchy: str, why: str
) -> None:
    (tmp_path / "memory.use_hierarchy").write_text(f"{hierarchy}\n")
    if not why:
        return _refuse_unreclaimable(str(tmp_path), [zombie], swap)
    with pytest.raises(Unreadable, match=why):
        _refuse_unreclaimable(str(tmp_path), [zombie], swap)
    return None


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("runs", [True, False])
def test_where_processes_run_nothing_is_reclaimed(tmp_path: Path, version: int, runs: bool) -> None:
    top, below, gone = live(2, "/a"), live(3, "/a/b", 2), live(4, "/a/gone", 2)
    (tmp_path / "b").mkdir()
    (tmp_path / "cgroup.events").write_text(f"populated {int(runs)}\nfrozen 0\n")
    (tmp_path / "cgroup.procs").write_text("")
    (tmp_path / "b/cgroup.procs").write_text("7\n" if runs else "")
    if not runs:
        return _refuse_processes(version, str(tmp_path), top, [top, below, gone])
    with pytest.raises(Unreadable, match="processes run there"):
        _refuse_processes(version, str(tmp_path), top, [top, below, gone])
    return None


def test_long_lists_are_cut_and_counted() -> None:
    assert _shortened([str(it) for it in range(20)]) == tuple(str(it) for it in range(20))
    assert _shortened([str(it) for it in range(21)])[20:] == ("and 1 more reasons like these",)
    assert _shortened([str(it) for it in range(23)])[20:] == ("and 3 more reasons like these",)
    lines = tuple(str(it) for it in range(SHOWN))
    assert _most("left: ", lines) == [f"left: {it}" for it in lines]
    assert _most("left: ", (*lines, "x", "y"))[SHOWN:] == ["left: and 2 more like these"]


def test_one_word_is_written_or_it_is_said_why_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert write(f"{tmp_path}/file", "word", 60) == f"$ printf %s word | tee {tmp_path}/file"
    assert (tmp_path / "file").read_text() == "word"
    with pytest.raises(Unreadable, match="no such file or directory"):
        write(f"{tmp_path}/none", "1", 60)


def test_a_write_that_does_not_end_is_stopped_in_time(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # nobody reads it: to open it waits for ever
    assert write(f"{tmp_path}/pipe", "1", 0.5).endswith("(stopped: time limit reached)")


def test_a_write_whose_end_nobody_can_ask_for_is_no_failure(tmp_path: Path) -> None:
    """With SIGCHLD ignored, as under some supervisors, the kernel keeps no exit code."""
    (tmp_path / "file").write_text("")
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert write(f"{tmp_path}/file", "word", 60, sync=False) == f"$ printf %s word | tee {tmp_path}/file"
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (tmp_path / "file").read_text() == "word"
