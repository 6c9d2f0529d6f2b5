"""Real containers by podman and runc, in private folders, from an image that holds only this machine's /usr.

Everything, cgroups included, is removed when the context ends. Limits on files and processes are set explicitly:
otherwise podman raises them to its own defaults, which needs CAP_SYS_RESOURCE.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.core import Host, UserError
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab._scenario import name_for
from zombiescope.places.own_python import FOLDER, environment

IMAGE = "localhost/zslab:1"
_LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
_USR = ("bin", "lib", "lib64", "sbin")  # symbolic links into /usr, as on all current distributions
_PATIENCE = 20.0  # seconds for the last process of a container to exit


class Podman:
    """A podman that sees only its own containers."""

    def __init__(self, folder: str, cgroup: str) -> None:
        self.cgroup = cgroup  # parent of all its containers
        self._folder = folder
        folders = {"root": "root", "runroot": "run", "tmpdir": "tmp"}
        self._command = [
            "podman",
            *(word for option, name in folders.items() for word in (f"--{option}", f"{folder}/{name}")),
            *("--cgroup-manager", "cgroupfs", "--runtime", "runc", "--storage-driver", "vfs"),
            *("--runtime-flag", f"root={folder}/runc"),  # not /run/runc, where a killed lab would leave its state
            *("--events-backend", "none"),
        ]

    def __call__(self, *argv: str) -> str:
        """What podman prints; a UserError with its last line if it fails."""
        environ = {**environment(), "TMPDIR": self._folder}
        command = [*self._command, *argv]
        done = subprocess.run(command, cwd=FOLDER, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"podman {argv[0]}: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        return done.stdout.strip()

    def run(self, name: str, script: str, *options: str) -> str:
        """Start a container that runs a shell script; returns the path of its cgroup."""
        usual = ("-d", "--network", "none", "--name", name, "--cgroup-parent", self.cgroup, "-v", "/usr:/usr:ro")
        made = self("run", *usual, *_LIMITS, *options, IMAGE, "/bin/sh", "-c", script)
        return f"{self.cgroup}/libpod-{made}"


@contextmanager
def podman() -> Iterator[Podman]:
    folder = tempfile.mkdtemp(prefix=f"{name_for('podman')}-")
    one = Podman(folder, f"/{name_for('podman')}")
    try:
        _image(f"{folder}/image.tar")
        one("import", f"{folder}/image.tar", IMAGE)
        yield one
    finally:
        try:
            one("rm", "-f", "-a", "-t", "0")
        finally:
            _remove_cgroups(one.cgroup)
            shutil.rmtree(folder, ignore_errors=True)


def _image(path: str) -> None:
    with tarfile.open(path, "w") as tar:
        for name in ("usr", "proc", "sys", "dev", "tmp", "etc"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry, io.BytesIO())
        for name in _USR:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(entry)


def _remove_cgroups(path: str) -> None:
    """Remove the parent cgroup that podman made in each hierarchy, and what is left below it."""
    deadline = time.monotonic() + _PATIENCE
    for mount in cgroup_mounts(Host()):
        top = mount.path + path
        while os.path.isdir(top):
            for folder, _, _ in os.walk(top, topdown=False):
                try:
                    os.rmdir(folder)
                except FileNotFoundError:
                    continue
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
