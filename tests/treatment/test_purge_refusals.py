"""Where a reclaim is refused before anything is written: in the cgroup that the tests run in, which is only read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.conftest import CANNOT
from tests.treatment.test_purge_decisions import dead, live, looks

from zombiescope.core import Host, Unreadable
from zombiescope.kernel.memcg_records import MemoryCgroup
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.treatment.purge import _PAGE, _free_swap, _reclaim_in, drop_pinning_files, reclaim
from zombiescope.treatment.purge_command import main


def own(**rest: int) -> MemoryCgroup:
    """The memory cgroup that we are in, as a walk would tell of it."""
    rows = [line.split(":", 2) for line in Host().read("/proc/self/cgroup").splitlines()]
    paths = {controller: row[2] for row in rows for controller in row[1].split(",")}
    for mount in cgroup_mounts(Host()):
        if "memory" in mount.controllers or (mount.version == 2 and "memory" not in paths):
            path = paths.get("memory", paths.get("", ""))
            folder = mount.path + path.removeprefix(mount.root.rstrip("/"))
            if path != "/" and os.path.exists(f"{folder}/cgroup.procs"):
                return live(2, path, **rest)
    pytest.skip(f"{CANNOT}show us the memory cgroup that we are in")


def inode(path: str) -> int:
    folders = [mount.path + path.removeprefix(mount.root.rstrip("/")) for mount in cgroup_mounts(Host())]
    return next(os.stat(it).st_ino for it in folders if os.path.exists(f"{it}/memory.stat"))


def refused(
    zombies: Sequence[MemoryCgroup], *others: MemoryCgroup, version: int, budget: int | None = None, alive: bool = True
) -> str:
    top = replace(own(), inode=inode(own().path))
    found = looks([top, *others, *zombies], version=version)()
    with pytest.raises(Unreadable) as why:
        _reclaim_in(found, top, list(zombies), alive, 1.0, budget)
    return why.value.why


NEIGHBOUR = live(9, "/own/neighbour", 2, file_pages=50)
EMPTY, LOCKED = dead(5, "/own/x", 2), dead(5, "/own/x", 2, unevictable_pages=1)


@pytest.mark.parametrize("version", [1, 2])
def test_where_nothing_could_be_freed_nothing_is_written(version: int) -> None:
    assert "no zombie there has pages" in refused([EMPTY], version=version)
    assert "no zombie there has pages" in refused([EMPTY], version=version, budget=0), "none is within any budget"
    if not _free_swap():
        swappable = dead(5, "/own/x", 2, anon_pages=3)
        said = refused([swappable], version=version)
        assert ("no zombie there" if version == 2 else "3 pages in tmpfs or anonymous memory") in said


def test_the_old_interface_takes_pages_of_neighbours_too_so_they_count() -> None:
    assert "would go, more than" in refused([EMPTY], NEIGHBOUR, version=1, budget=50 * _PAGE - 1)
    assert "no zombie there has pages" in refused([EMPTY], NEIGHBOUR, version=1, budget=50 * _PAGE)
    assert "no zombie there has pages" in refused([EMPTY], NEIGHBOUR, version=2, budget=0), "the new one does not"
    assert "would go, more than" in refused([dead(5, "/own/x", 2, file_pages=1)], version=2, budget=_PAGE - 1)


def test_locked_pages_of_any_dead_cgroup_below_are_in_the_way_of_the_old_interface_alone() -> None:
    assert "1 locked pages" in refused([EMPTY], dead(6, "/own/y", 2, unevictable_pages=1), version=1)
    assert "no zombie there has pages" in refused([EMPTY], live(6, "/own/y", 2, unevictable_pages=1), version=1)
    assert "no zombie there has pages" in refused([LOCKED], version=2)
    elsewhere = dead(6, "/other", 1, unevictable_pages=1)
    assert "no zombie there has pages" in refused([EMPTY], elsewhere, version=1), "it is not below"


def test_we_run_there_so_it_is_left_alone_and_a_folder_of_the_same_name_is_not_it() -> None:
    version = 1 if os.path.exists("/sys/fs/cgroup/memory") else 2
    assert "processes run there" in refused([EMPTY], version=version, alive=False)
    other = reclaim("/", look=looks([own(), EMPTY], version=version))
    assert other.evidence == () and "its folder is not visible here" in other.why_left[0], "another inode"


def test_a_file_that_cannot_be_reached_is_tried_once_and_no_longer_than_told() -> None:
    asked = 0
    look = looks([dead(3, "/a")])

    def counted() -> object:
        nonlocal asked
        asked += 1
        return look()

    done = drop_pinning_files("/", look=counted)  # type: ignore[arg-type]
    assert done.left == 1 and done.evidence == () and asked <= 15, "it did not help, so there is no third round"
    late = drop_pinning_files("/", rounds=4, seconds=0, look=looks([dead(3, "/a")], [dead(4, "/b")]))
    assert late.evidence == () and late.seconds < 3


def test_the_command_fails_for_what_is_no_scope(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advice", "kubepods", "--enough", "-1"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
