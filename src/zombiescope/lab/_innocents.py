"""Processes of the controls: each keeps the machine busy in a way that looks like a fault and harms nobody."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from zombiescope.core import UserError
from zombiescope.lab._scenario import name_for
from zombiescope.lab._worker import LONGEST, die_with_parent, play, ready, worker
from zombiescope.lab._zombies import TMPFS
from zombiescope.places.own_python import FOLDER, environment

FILES, SIZE = 3_000, 4_096  # of one image layer, and bytes of each
KEPT = 4  # logs of finished jobs that are still there: their page cache is charged to a cgroup that is gone
_IO_URING_SETUP, _SQPOLL, _SQ_AFF, _PARAMS = 425, 2, 4, 120  # include/uapi/linux/io_uring.h


def innocent(role: str, *argv: str) -> AbstractContextManager[int]:
    """A process in one of the roles below, already working on entry."""
    return worker(__name__, role, *argv)


@contextmanager
def own_folder(label: str) -> Iterator[str]:
    """A folder in memory, removed at the end: no disk is touched."""
    with tempfile.TemporaryDirectory(prefix=f"{name_for(label)}-", dir=TMPFS, ignore_cleanup_errors=True) as folder:
        yield folder


def layer(folder: str, files: int) -> str:
    """An image layer as a registry has it: a gzipped tar of many small files; returns its path."""
    top, packed = f"{folder}/layer", f"{folder}/layer.tar.gz"
    _tree(top, files, os.urandom(SIZE // 4) * 4)
    done = subprocess.run(
        ["tar", "-C", top, "-czf", packed, "."],
        cwd=FOLDER,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UserError(f"tar: {done.stderr.strip()[-200:]}")
    shutil.rmtree(top)
    return packed


def _tree(top: str, files: int, page: bytes) -> None:
    for number in range(files):
        if number % 100 == 0:
            os.makedirs(f"{top}/{number // 100}")
        with open(f"{top}/{number // 100}/{number}", "wb") as file:
            file.write(page)


def _remove(folder: str, files: str) -> None:
    """`rm -rf` of a tree of empty files, over and over."""
    ready()
    while True:
        _tree(f"{folder}/many", int(files), b"")
        _done("rm", "-rf", f"{folder}/many")


def _unpack(folder: str, packed: str) -> None:
    """`tar -x` of a layer into a new folder, over and over; the old one is removed."""
    ready()
    while True:
        os.mkdir(f"{folder}/rootfs")
        _done("tar", "-C", f"{folder}/rootfs", "-xzf", packed)
        _done("rm", "-rf", f"{folder}/rootfs")


def _done(*argv: str) -> None:
    subprocess.run(argv, cwd=FOLDER, env=environment(), check=True, preexec_fn=die_with_parent)


def _export() -> None:
    """Read sysfs over and over, as exporters of node and card metrics do; kernfs serves cgroups too."""
    ready()
    while True:
        for folder, folders, files in os.walk("/sys/devices/system/cpu"):
            folders[:] = [it for it in folders if not os.path.islink(os.path.join(folder, it))]
            for name in files:
                try:
                    with open(os.path.join(folder, name), "rb") as file:
                        file.read(4096)
                except OSError:
                    continue
        for folder, folders, _ in os.walk("/sys/class"):
            folders[:] = folders if folder.count("/") < 3 else []


def _poll(core: str) -> None:
    """A ring of io_uring whose kernel thread polls one core for requests, and never sleeps."""
    idle = LONGEST * 1000  # milliseconds without a request after which it would sleep
    params = ctypes.create_string_buffer(struct.pack("IIIII", 0, 0, _SQPOLL | _SQ_AFF, int(core), idle), _PARAMS)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_IO_URING_SETUP, 8, params) < 0:
        print(f"io_uring is not allowed here: {os.strerror(ctypes.get_errno())}", flush=True)
        return
    ready()
    time.sleep(LONGEST)


def _schedule(parent: str, logs: str, pause: str) -> None:
    """Short jobs, each in a memory cgroup of its own that is removed; the logs of the last ones stay for a while."""
    ready()
    number = 0
    while True:
        number += 1
        group = f"{parent}/job-{number}"
        os.mkdir(group)
        command = 'echo 0 > "$1/cgroup.procs"; head -c 200000 /dev/zero > "$2"'
        _done("sh", "-c", command, "job", group, f"{logs}/{number}.log")
        _gone(group)
        if number > KEPT:
            os.unlink(f"{logs}/{number - KEPT}.log")
        time.sleep(float(pause))


def _gone(group: str) -> None:
    for _ in range(100):
        try:
            os.rmdir(group)
        except OSError:  # its process is still exiting
            time.sleep(0.01)
        else:
            return


_ROLES: dict[str, Callable[..., None]] = {
    "remove": _remove,
    "unpack": _unpack,
    "export": _export,
    "poll": _poll,
    "schedule": _schedule,
}


if __name__ == "__main__":
    play(_ROLES)
