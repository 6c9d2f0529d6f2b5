"""Where a reclaim is refused before anything is written, and what is written: hierarchies made of plain files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.probes.machine import machine
from tests.treatment.test_purge_decisions import dead, live, looks

from zombiescope.core import Unreadable
from zombiescope.kernel.memcg_records import MemoryCgroup
from zombiescope.treatment.purge import (
    _PAGE,
    _folder,
    _free_swap,
    _reclaim_in,
    drop_pinning_files,
    reclaim,
)
from zombiescope.treatment.purge_command import main

Tell = Callable[..., str]


NOTHING = "no zombie there has pages"


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def tell(tmp_path: Path) -> Tell:
    """What becomes of a reclaim in /own, a cgroup of a hierarchy that is made of plain files."""

    def told(
        version: int, zombies: Sequence[MemoryCgroup], *others: MemoryCgroup, alive: bool = True, **rest: int
    ) -> str:
        folder = tmp_path / f"v{version}" / "own"
        folder.mkdir(parents=True, exist_ok=True)
        kind = "cgroup2 cgroup2 rw" if version == 2 else "cgroup cgroup rw,memory"
        # On version 2 processes may be in any cgroup below; version 1 has no such file.
        running = {"cgroup.procs": "", "cgroup.events": "populated 1\n"} if version == 2 else {"cgroup.procs": "7\n"}
        files = {"memory.use_hierarchy": "1\n", **running}
        for name in ("memory.reclaim", "memory.force_empty"):
            files[name] = ""
        for name, text in files.items():
            (folder / name).write_text(text)
        root = machine(
            tmp_path / "root",
            {
                "proc/self/mountinfo": f"30 1 0:30 / {folder.parent} rw - {kind}\n",
                "proc/meminfo": f"SwapFree: {rest.get('swap', 0)} kB\n",
            },
        )
        top = replace(live(2, "/own"), inode=folder.stat().st_ino)
        found = looks([top, *others, *zombies], version=version)()
        try:
            _reclaim_in(root, found, top, list(zombies), alive, 20.0, rest.get("budget"))
        except Unreadable as no:
            assert not any((folder / it).read_text() for it in ("memory.reclaim", "memory.force_empty"))
            return no.why
        return " ".join(
            f"{it}={text}" for it in ("memory.reclaim", "memory.force_empty") if (text := (folder / it).read_text())
        )

    return told


NEIGHBOUR = live(9, "/own/neighbour", 2, file_pages=50)
EMPTY, CACHED = dead(5, "/own/x", 2), dead(5, "/own/x", 2, pin=None, file_pages=2)
SWAPPABLE = dead(5, "/own/x", 2, pin=None, anon_pages=3)


def test_where_nothing_could_be_freed_nothing_is_written(tell: Tell, version: int) -> None:
    assert NOTHING in tell(version, [EMPTY])
    assert NOTHING in tell(version, [EMPTY], budget=0), "none is within any budget"
    assert (NOTHING if version == 2 else "3 pages in tmpfs or anonymous memory") in tell(version, [SWAPPABLE])


def test_what_is_written_asks_for_no_more_than_the_dead_hold(tell: Tell) -> None:
    assert tell(2, [CACHED], NEIGHBOUR) == f"memory.reclaim={2 * _PAGE}"
    assert tell(2, [SWAPPABLE], swap=8) == f"memory.reclaim={8 << 10}", "what fits into swap"
    assert tell(2, [SWAPPABLE], swap=800) == f"memory.reclaim={3 * _PAGE}"
    assert tell(1, [CACHED]) == "memory.force_empty=0"


def test_the_old_interface_takes_pages_of_neighbours_too_so_they_count(tell: Tell) -> None:
    assert "would go, more than" in tell(1, [EMPTY], NEIGHBOUR, budget=50 * _PAGE - 1)
    assert NOTHING in tell(1, [EMPTY], NEIGHBOUR, budget=50 * _PAGE)
    assert NOTHING in tell(2, [EMPTY], NEIGHBOUR, budget=0), "the new one does not"
    assert "would go, more than" in tell(2, [CACHED], budget=2 * _PAGE - 1)


def test_locked_pages_of_any_dead_cgroup_below_are_in_the_way_of_the_old_interface_alone(tell: Tell) -> None:
    locked = dead(6, "/own/y", 2, unevictable_pages=1)
    assert "1 locked pages" in tell(1, [EMPTY], locked)
    assert NOTHING in tell(1, [EMPTY], live(6, "/own/y", 2, unevictable_pages=1))
    assert NOTHING in tell(1, [EMPTY], dead(6, "/other", 1, unevictable_pages=1)), "it is not below"
    assert NOTHING in tell(2, [EMPTY], locked)


def test_where_processes_run_it_is_left_alone_and_a_folder_of_the_same_name_is_not_it(tell: Tell, version: int) -> None:
    assert "processes run there" in tell(version, [CACHED], alive=False)
    other = reclaim("/", look=looks([live(2, "/own"), EMPTY], version=version))
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
    assert late.evidence == ()


def test_the_command_fails_for_what_is_no_scope(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advice", "kubepods", "--enough", "-1"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_scope_with_no_more_than_usual_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["advice", "/no-such-scope", "--enough", "0"])
    said = capsys.readouterr()
    if said.err:
        pytest.skip(f"{CANNOT}walk its memory cgroups: {said.err.strip()}")
    assert (code, said.out) == (0, "0 dying cgroups are left, no more than usual: nothing to do\n")


def test_a_cgroups_folder_is_that_of_the_memory_hierarchy(tmp_path: Path) -> None:
    for name in ("cpu", "memory", "unified"):
        (tmp_path / name / "x").mkdir(parents=True)
    kinds = {"cpu": "cgroup cgroup rw,cpu", "memory": "cgroup cgroup rw,memory", "unified": "cgroup2 cgroup2 rw"}
    lines = [f"{at} 1 0:{at} / {tmp_path}/{name} rw - {kind}" for at, (name, kind) in enumerate(kinds.items(), 30)]
    root = machine(tmp_path / "root", {"proc/self/mountinfo": "\n".join(lines) + "\n"})
    found = {}
    for version in (1, 2):
        for name in kinds:
            asked = replace(live(2, "/x"), inode=(tmp_path / name / "x").stat().st_ino)
            with suppress(Unreadable):
                found[version, name] = _folder(root, version, asked)
    assert found == {(1, "memory"): f"{tmp_path}/memory/x", (2, "unified"): f"{tmp_path}/unified/x"}


def test_free_swap(tmp_path: Path) -> None:
    text = "SwapTotal:    4096 kB\nSwapFree:     2048 kB\n"
    assert _free_swap(machine(tmp_path / "swap", {"proc/meminfo": text})) == 2 << 20
    assert _free_swap(machine(tmp_path / "none", {"proc/meminfo": "MemFree: 1 kB\n"})) == 0
