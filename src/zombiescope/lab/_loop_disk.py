"""A small ext4 file system of the lab's own, on a loop device; unmounted and removed when the context ends."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.core import Host, UserError
from zombiescope.kernel.mounts import mount_of
from zombiescope.lab._scenario import name_for
from zombiescope.places.own_python import FOLDER, environment

LIMIT, READ_LIMIT = (f"blkio.throttle.{way}_bps_device" for way in ("write", "read"))  # of the top cgroup: for all


def limit_speed(disk: str, speed: int, limit: str = LIMIT) -> None:
    """So many bytes a second at most, for every writer, the kernel itself included; 0 lifts the limit."""
    number, path = os.stat(disk).st_rdev, f"{mount_of(Host(), 'blkio').path}/{limit}"
    try:
        with open(path, "w") as file:
            file.write(f"{os.major(number)}:{os.minor(number)} {speed}")
    except OSError as error:
        raise UserError(f"cannot limit a disk here: {path}: {error.strerror}") from error


@contextmanager
def loop_disk(label: str, size: int) -> Iterator[tuple[str, str]]:
    """The device, and where it is mounted."""
    with ExitStack() as undo:
        top = undo.enter_context(tempfile.TemporaryDirectory(prefix=f"{name_for(label)}-", dir="/var/tmp"))
        image, folder = os.path.join(top, "disk"), os.path.join(top, "mounted")
        os.mkdir(folder)
        with open(image, "wb") as file:
            file.truncate(size)
        _command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
        disk = _command("losetup", "--find", "--show", image).strip()
        try:
            _command("mount", disk, folder)
            undo.callback(_command, "umount", "--lazy", folder)
        finally:
            # While it is mounted the kernel only notes this: the device is free as soon as the mount is gone, also
            # after kill -9 and `lab clean`.
            _command("losetup", "--detach", disk)
        yield disk, folder


def _command(*argv: str) -> str:
    done = subprocess.run(argv, cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout
