"""Tracepoints and the LRU listing: lines as the kernel writes them, and real births and deaths."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.waiting import HANGS

from zombiescope.core import Host, Unparsable, Unreadable
from zombiescope.kernel import cgroup_events, lru_gen
from zombiescope.kernel.private_mount import mounted
from zombiescope.kernel.timed_read import network_interrupts, quietest_core, timed_read
from zombiescope.lab._zombies import leaked

LINE = (
    b"            runc-2811    [001] ...1.  1047.513902: cgroup_mkdir: root=4 id=221 level=2 path=/docker/5f0c 2b\x1b[m"
)
LISTING = """memcg     1 /
 node     0
          0      74208        120         301
          1      74208          3           4
memcg     0 /docker/5f0c 2b7a
 node     0
          0      74208          0           1
 node     1
          0      74208          2           0
memcg     7 /empty
"""


def test_a_line_is_read_whole() -> None:
    event = cgroup_events.parse(LINE, offset=1000.0)
    assert event is not None
    assert (event.kind, event.root, event.id, event.comm, event.at) == ("mkdir", 4, 221, "runc", 2047.513902)
    assert event.path == "/docker/5f0c 2b\x1b[m"


@pytest.mark.parametrize(
    "line", [b"", b"CPU:1 [LOST 31 EVENTS]", LINE[:60], LINE.replace(b"id=221", b"id=x"), os.urandom(200)]
)
def test_what_is_no_event_is_none(line: bytes) -> None:
    assert cgroup_events.parse(line) is None


def test_the_listing_is_read_with_pages_of_all_nodes() -> None:
    found = {it.path: (it.id, it.anon_pages, it.file_pages) for it in lru_gen.parse(LISTING)}
    assert found == {"/": (1, 123, 305), "/docker/5f0c 2b7a": (0, 2, 1), "/empty": (7, 0, 0)}
    assert lru_gen.parse("") == []
    with pytest.raises(Unparsable):
        lru_gen.parse("something else\n")


def test_interrupts_of_network_cards_are_counted_by_core() -> None:
    text = """           CPU0       CPU1
 24:          5      70000   PCI-MSI 1-edge      eth0-Tx-Rx-0
 25:          9          0   IO-APIC  11-edge      virtio1
  1:         99         99   IO-APIC   1-edge      i8042
"""
    assert network_interrupts(text, {"24", "virtio1"}) == {0: 14, 1: 70_000}
    assert network_interrupts("", {"24"}) == {}


def test_a_read_is_timed_on_the_core_asked_for() -> None:
    core = quietest_core(Host())
    took = timed_read("/proc/stat", core)
    assert took.core == core and 0 < took.cpu_seconds < 1 and took.seconds > 0
    with pytest.raises(Unreadable, match="no such file"):
        timed_read("/nowhere", core)
    assert os.sched_getaffinity(0) != {core} or os.cpu_count() == 1, "the caller is not moved"


@pytest.mark.kernel
def test_births_removals_and_releases_are_seen_with_paths_and_nothing_is_left() -> None:
    try:
        with cgroup_events.watching() as events:
            with leaked(23, label="test-events") as leak:
                seen = events.read()
                name = "/" + os.path.basename(leak.parent)
                mine = [event for event in seen if event.path.startswith(f"{name}/")]
                assert [sum(event.kind == kind for event in mine) for kind in cgroup_events.KINDS] == [23, 23, 0]
                assert {event.path for event in mine} == {f"{name}/{child}" for child in leak.names}
                assert all(abs(event.at - time.time()) < 30 for event in mine)
            released = wait_for_releases(events, name, 23)
            assert released == 23 and events.lost == 0
    except Unreadable as error:
        pytest.skip(CANNOT + str(error))
    with mounted("tracefs") as tracefs:
        assert not [it for it in os.listdir(f"{tracefs}/instances") if it == f"zombiescope-{os.getpid()}"]


def wait_for_releases(events: cgroup_events.CgroupEvents, name: str, wanted: int) -> int:
    """The kernel's workers release in their own time."""
    seen, deadline = 0, time.monotonic() + HANGS
    while seen < wanted and time.monotonic() < deadline:
        seen += sum(event.kind == "release" and event.path.startswith(f"{name}/") for event in events.read())
        time.sleep(0.05)
    return seen


@pytest.mark.kernel
def test_what_a_killed_watcher_left_is_removed_by_the_next(tmp_path: Path) -> None:
    program = """
import time
from zombiescope.kernel.cgroup_events import watching
with watching():
    print("on", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=tmp_path) as victim:
        assert victim.stdout is not None
        if victim.stdout.readline() != b"on\n":
            pytest.skip(CANNOT + "trace cgroup events")
        victim.kill()
    with mounted("tracefs") as tracefs:
        assert f"zombiescope-{victim.pid}" in os.listdir(f"{tracefs}/instances")
    with cgroup_events.watching(), mounted("tracefs") as tracefs:
        assert f"zombiescope-{victim.pid}" not in os.listdir(f"{tracefs}/instances")


@pytest.mark.kernel
def test_of_two_with_the_same_pid_the_living_keeps_its_events_and_the_dead_is_replaced() -> None:
    """As in two pods, each with its own pid namespace: the pid in the name says nothing."""
    own = f"zombiescope-{os.getpid()}"
    try:
        with (
            mounted("tracefs") as tracefs,
            cgroup_events.watching() as neighbour,
            cgroup_events.watching() as mine,  # the same pid, and the neighbour lives
        ):
            names = [it for it in os.listdir(f"{tracefs}/instances") if it.startswith(own)]
            assert sorted(names) == [own, f"{own}-1"]
            with leaked(3, label="test-neighbours") as leak:
                name = "/" + os.path.basename(leak.parent)
                for events in (neighbour, mine):
                    made = [it for it in events.read() if it.kind == "mkdir" and it.path.startswith(f"{name}/")]
                    assert len(made) == 3
    except Unreadable as error:
        pytest.skip(CANNOT + str(error))
    with mounted("tracefs") as tracefs:
        os.mkdir(f"{tracefs}/instances/{own}")  # what a killed one with our pid left
        with cgroup_events.watching() as events:
            names = [it for it in os.listdir(f"{tracefs}/instances") if it.startswith(own)]
            assert names == [own] and events.lost == 0
        assert own not in os.listdir(f"{tracefs}/instances")
