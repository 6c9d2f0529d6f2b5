"""Tables that can be full: captured text, damaged text, and instances that this process really holds."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import pytest
from tests.files import node_of
from tests.probes.machine import AT

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.probes import inotify, kernel_tables, pids_limits
from zombiescope.probes._open_files import Turns, parse_status

FILES = {
    "at": str(AT),
    "proc/loadavg": "4.47 5.76 3.64 7/144 16125\n",
    "proc/sys/kernel/threads-max": "192000\n",
    "proc/sys/kernel/pid_max": "32768\n",
    "proc/sys/fs/file-nr": "1276\t0\t2465620\n",
    "proc/key-users": "    0:     9 8/8 3/1000000 40/25000000\n 1000:   200 199/199 199/200 9000/20000\n",
    "proc/net/stat/arp_cache": "entries  allocs   destroys table_fulls\n000003ff 00000000 00000000 00000002\n"
    "000003ff 00000002 00000000 00000001\n",
    "proc/sys/net/ipv4/neigh/default/gc_thresh3": "1024\n",
}


def root(folder: Path, files: dict[str, str]) -> Host:
    return node_of(folder, FILES | files)


def test_what_is_used_and_what_may_be(tmp_path: Path) -> None:
    found = [it for it in kernel_tables.read(root(tmp_path, {})) if isinstance(it, Reading)]
    values = {(it.what, it.subject.removeprefix("table:")): it.value for it in found}
    assert values["table_used", "threads"] == 144 and values["table_limit", "threads"] == 32768
    assert values["table_used", "file handles"] == 1276 and values["table_limit", "file handles"] == 2465620
    assert values["table_used", "keys of user 1000"] == 199 and values["table_limit", "keys of user 1000"] == 200
    assert values["table_used", "IPv4 neighbours"] == 1023 and values["table_refused_total", "IPv4 neighbours"] == 3
    assert {it.at for it in found} == {AT} and ("table_used", "AIO requests") not in values


def test_damaged_text_costs_its_own_table(tmp_path: Path) -> None:
    found = list(kernel_tables.read(root(tmp_path, {"proc/key-users": "0: what\n", "proc/loadavg": "x\n"})))
    assert {it.source for it in found if not isinstance(it, Reading)} == {"/proc/key-users", "/proc/loadavg"}
    assert any(it.subject == "table:IPv4 neighbours" for it in found)
    for text in ("", "entries\n", "allocs\n1\n", "entries\nzz\n"):
        with pytest.raises(Unparsable):
            kernel_tables.parse_neighbours(text, "/x")


def test_nothing_at_all_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        list(kernel_tables.read(Host(str(tmp_path), live=False)))


def test_forks_that_a_cgroup_refused(tmp_path: Path) -> None:
    mount = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    folder = "sys/fs/cgroup/kubepods"
    files = {"proc/self/mountinfo": mount, f"{folder}/pids.max": "20\n", f"{folder}/pids.events": "max 7\n"}
    files |= {f"{folder}/pids.current": "20\n", "sys/fs/cgroup/free/pids.max": "max\n"}
    found = list(pids_limits.read(root(tmp_path, files)))
    assert [(it.what, it.subject, it.value) for it in found if isinstance(it, Reading)] == [
        ("cgroup_threads", "cgroup:/kubepods", 20),
        ("cgroup_threads_limit", "cgroup:/kubepods", 20),
        ("cgroup_forks_refused_total", "cgroup:/kubepods", 7),
        ("cgroups_with_pids_limit", "node", 1),
    ]


@pytest.mark.beside
def test_inotify_instances_of_this_very_process() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    uid = f"user:{os.geteuid()}"

    def used() -> float:
        found = [it for it in inotify.read(Host()) if isinstance(it, Reading)]
        return next((it.value for it in found if it.what == "inotify_instances" and it.subject == uid), 0.0)

    for _ in range(3):  # others come and go meanwhile
        before = used()
        made = [fd for _ in range(7) if (fd := libc.inotify_init1(os.O_CLOEXEC)) >= 0]
        try:
            after = used()
        finally:
            for fd in made:
                os.close(fd)
        if after - before == len(made) == 7:
            return
        time.sleep(0.5)
    pytest.fail(f"{len(made)} were made, but {before} became {after}")


def test_the_status_of_a_process() -> None:
    assert parse_status("Name:\ta\tb\nUid:\t1\t2\t3\t4\nFDSize:\t256\n") == ("a\tb", "2", 256)
    for text in ("", "Name:\tx\n", "Name:\tx\nUid:\tx\n"):
        with pytest.raises(Unparsable):
            parse_status(text)


def test_a_process_with_room_for_a_million_files_is_left_out_and_that_is_said(tmp_path: Path) -> None:
    """Listing its files would cost as much as it likes."""
    folder = tmp_path / "proc/7"
    (folder / "fd").mkdir(parents=True)
    (folder / "fd/3").symlink_to("anon_inode:inotify")
    (folder / "status").write_text("Name:\tbig\nUid:\t0\t0\t0\t0\nFDSize:\t1048576\n")
    limit = tmp_path / "proc/sys/fs/inotify/max_user_instances"
    limit.parent.mkdir(parents=True)
    limit.write_text("128\n")
    found = list(inotify.read(Host(str(tmp_path), live=False)))
    assert not [it for it in found if isinstance(it, Reading) and it.what == "inotify_instances"]
    (blind,) = [it for it in found if isinstance(it, Blind)]
    assert "1 process has room for more" in blind.why


def test_a_process_that_refuses_hides_its_own_instances_only() -> None:
    """As PID 1 of some machines does, even from root."""
    (unread,) = inotify._unseen(Turns(whole=True, listed=80, refused=["init[1]"]), AT)
    assert isinstance(unread, Reading) and (unread.value, unread.text) == (1, "init[1]")
    *_, blind = inotify._unseen(Turns(whole=True, listed=2, refused=["a[1]", "b[2]", "c[3]"]), AT)
    assert isinstance(blind, Blind) and blind.why == "permission denied: the open files of 3 processes"
    *_, blind = inotify._unseen(Turns(whole=False, waiting=["7"]), AT)
    assert isinstance(blind, Blind) and blind.why.startswith("1 process had no turn yet")
