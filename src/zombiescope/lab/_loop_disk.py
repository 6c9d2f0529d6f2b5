"""A small ext4 file system of the lab's own, on a loop device; unmounted and removed when the context ends."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.core import UserError
from zombiescope.lab._scenario import name_for
from zombiescope.places.own_python import FOLDER, environment


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
        undo.callback(_command, "losetup", "--detach", disk)
        _command("mount", disk, folder)
        undo.callback(_command, "umount", "--lazy", folder)
        yield disk, folder


def _command(*argv: str) -> str:
    done = subprocess.run(argv, cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout
