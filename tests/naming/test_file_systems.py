"""File systems that do not answer: a real FUSE daemon, stopped while a process has its file mapped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.naming.programs import LOADER, compiled, library, name_at, needs_root, running
from tests.waiting import until

from zombiescope.core.errors import Unreadable
from zombiescope.naming import file_systems
from zombiescope.naming.file_systems import FileSystems
from zombiescope.naming.namer import Namer

OFFSET = re.compile(r"libwalk\.so\+0x[0-9a-f]+")
MOUNTS = r"""27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:20 / /proc rw - proc proc rw
31 27 0:40 / /srv/far\040away rw,relatime shared:9 master:2 - fuse.sshfs me@there:/ rw
32 31 0:41 / /srv/far\040away/near rw - tmpfs none rw
33 27 0:42 / /home rw - nfs4 server:/home rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/usr/lib/x.so", ""),
        ("/srv/far away/x.so", "fuse.sshfs"),
        ("/srv/far away", "fuse.sshfs"),
        ("/srv/far away/near/x.so", ""),
        ("/srv/far", ""),
        ("/home/me/x.so", "nfs4"),
        ("/proc/1/mem", "proc"),
    ],
)
def test_the_nearest_mount_above_a_path_counts(path: str, kind: str) -> None:
    mounts = FileSystems(MOUNTS)
    if not kind:
        mounts.check_path(path)
        return
    with pytest.raises(Unreadable, match=re.escape(kind)):
        mounts.check_path(path)


def test_a_device_counts_where_it_is_known() -> None:
    mounts = FileSystems(MOUNTS)
    with os.fdopen(os.memfd_create("x"), "wb") as file:  # on a mount that is in no list
        mounts.check_file("x", file.fileno(), (254, 0))
        mounts.check_file("x", file.fileno(), (253, 99))
        with pytest.raises(Unreadable, match="not mounted any more"):
            mounts.check_file("x", file.fileno(), (0, 99))
        with pytest.raises(Unreadable, match=r"fuse\.sshfs"):
            mounts.check_file("x", file.fileno(), (0, 40))


def test_the_file_system_that_we_run_from_is_as_good_as_a_disk() -> None:
    mounts = FileSystems(MOUNTS, own=(0, 42))
    mounts.check_path("/home/me/x.so")
    assert not mounts._distant((0, 42))
    with pytest.raises(Unreadable, match=r"fuse\.sshfs"):
        mounts.check_path("/srv/far away/x.so")


@contextmanager
def served(file: Path, at: Path) -> Iterator[int]:
    """The daemon's pid. It is continued and ended, whatever happens: nothing is left hanging."""
    needs_root()
    if not os.path.exists("/dev/fuse"):
        pytest.skip(CANNOT + "mount FUSE")
    at.mkdir()
    argv = [sys.executable, str(Path(__file__).with_name("fuse_daemon.py")), str(file), str(at)]
    daemon = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert daemon.stdout is not None
        if (said := daemon.stdout.readline().strip()) != "mounted":
            pytest.skip(CANNOT + f"mount FUSE: {said}")
        yield daemon.pid
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
        subprocess.run(["umount", "-l", str(at)], check=False)
        daemon.kill()
        daemon.communicate()


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[tuple[int, int, int]]:
    """The daemon, a process that has mapped its file, and an address in it."""
    loader = compiled(LOADER, tmp_path / "loader")
    path = library("walk_far_away", tmp_path / "libwalk.so")
    with (
        served(path, tmp_path / "mounted") as daemon,
        running(loader, tmp_path / "mounted" / "libwalk.so", "walk_far_away") as (process, (address,)),
    ):
        os.kill(daemon, signal.SIGSTOP)
        yield daemon, process.pid, int(address, 16)
        os.kill(daemon, signal.SIGCONT)


def test_a_file_of_a_stopped_daemon_is_not_asked_for(stopped: tuple[int, int, int]) -> None:
    _, pid, address = stopped
    namer = Namer()
    assert OFFSET.fullmatch(name_at(pid, address, namer))
    assert not namer.reads, "a read of it would not have returned"


def test_what_hangs_all_the_same_is_left_behind_and_named_once_it_answers(
    stopped: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the file system were not known for what it is: an overlay whose lower layer is FUSE."""
    monkeypatch.setattr(file_systems, "_LOCAL", file_systems._LOCAL | {"fuse"})
    daemon, pid, address = stopped
    namer = Namer()
    assert OFFSET.fullmatch(name_at(pid, address, namer)) and namer.reads
    assert not namer.user(pid, address, time.monotonic_ns())[1], "not final"
    os.kill(daemon, signal.SIGCONT)
    until(lambda: name_at(pid, address, namer) == "walk_far_away")
