"""A real systemd as PID 1 of its own namespaces, on a copy-on-write view of this root, with the given units.

The machine's own systemd does not see it: mounts, processes, network and host name are private, /proc/sys is read-only
(systemd-sysctl would change the host's settings), and files are written to a tmpfs. Cgroups are real, below one folder
`zslab-…` of each hierarchy. After kill -9 only those and a small folder in /tmp are left. Ready in about a second.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from zombiescope.core import Host, UserError
from zombiescope.kernel.mounts import CgroupMount, cgroup_mounts
from zombiescope.lab._scenario import name_for
from zombiescope.places.own_python import FOLDER, environment, own_python

TO_BOOT = ("root", "systemd", "unshare")  # what a scenario needs that boots it
PACKAGES = ("systemd", "dbus", "util-linux", "iproute2")  # of Debian: for busctl, dbus-daemon, nsenter, ip
PATIENCE = 60.0  # seconds for the bus to answer: one on an idle machine, many on a starved one
SYSTEMD = "/lib/systemd/systemd"
BUS = "/run/dbus/system_bus_socket"
_ANOTHER_BUS = "ZOMBIESCOPE_SYSTEMD_BUS"  # see probes/systemd_units.py
_NAMESPACES = ("--mount", "--pid", "--fork", "--cgroup", "--uts", "--ipc", "--net")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LEGACY = ("systemd.unified_cgroup_hierarchy=no", "systemd.legacy_systemd_cgroup_controller=yes")
# Otherwise these two would pull in sysinit.target: udev, sysctl, tmpfiles and all that the host has enabled.
_ALONE = "[Unit]\nDefaultDependencies=no\n"
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MNT_DETACH = 1, 32, 4096, 2  # include/uapi/linux/mount.h


@dataclass(frozen=True, slots=True)
class Booted:
    """A running systemd."""

    name: str  # the folder of its cgroups in each hierarchy
    pid: int  # in the host's pid namespace

    @property
    def root(self) -> str:
        """Its root folder, a magic link of the kernel: it can be opened, but not resolved."""
        return f"/proc/{self.pid}/root"

    @property
    def bus(self) -> str:
        return f"unix:path={self.root}{BUS}"

    def systemctl(self, *argv: str) -> str:
        """Run systemctl as a user inside would."""
        inside = ["nsenter", f"--target={self.pid}", "-m", "-p", "-C", "-u", "-i", "-n", f"--root={self.root}"]
        command = [*inside, "systemctl", *argv]
        done = subprocess.run(
            command, cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False, timeout=60
        )
        if done.returncode:
            raise UserError(f"systemctl {' '.join(argv)}: {done.stderr.strip()}")
        return done.stdout

    def show(self, unit: str, what: str) -> str:
        return self.systemctl("show", unit, f"--property={what}", "--value").strip()


@contextmanager
def booted(
    units: Mapping[str, str],
    *,
    files: Mapping[str, str] | None = None,
    binds: Mapping[str, str] | None = None,
    label: str = "systemd",
    legacy: bool = False,
) -> Iterator[Booted]:
    """systemd with these units started and these files in its root; stopped and removed with all that it made.

    `binds`: folders of this machine, by their path inside; all else is in memory.
    `legacy`: it uses cgroup v1 only, where it is not notified when a cgroup becomes empty.
    """
    if legacy and not any(mount.name == "systemd" for mount in cgroup_mounts(Host())):
        raise UserError("no cgroup v1 hierarchy of systemd is mounted here")
    name = name_for(label)
    remove_cgroups(name)
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder, open(f"{folder}/console", "w+") as console:
        with open(f"{folder}/given.json", "w") as file:
            given = {"units": dict(units), "files": dict(files or {}), "binds": dict(binds or {}), "legacy": legacy}
            json.dump(given, file)
        launched = subprocess.Popen(
            own_python("zombiescope.lab._systemd", "enter", name, folder),
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            cwd=FOLDER,
            env=environment(),
        )
        pid = 0
        try:
            pid = _ready(launched, console.name)
            yield Booted(name, pid)
        finally:
            # When PID 1 of a pid namespace exits, the kernel kills the rest; its parent `unshare` then exits too.
            with suppress(ProcessLookupError):
                os.kill(pid or launched.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                launched.wait(timeout=PATIENCE)
            launched.kill()
            launched.wait()
            remove_cgroups(name)


@contextmanager
def asked_by_diagnosis(systemd: Booted) -> Iterator[None]:
    """Until the end, a diagnosis by this process or its children asks this systemd, not the machine's own."""
    before = os.environ.get(_ANOTHER_BUS)
    os.environ[_ANOTHER_BUS] = systemd.bus
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ANOTHER_BUS]
        else:
            os.environ[_ANOTHER_BUS] = before


def remove_cgroups(name: str) -> None:
    """Remove the folder `name` of each hierarchy with all below it; wait for processes that are exiting."""
    deadline = time.monotonic() + PATIENCE
    for mount in cgroup_mounts(Host()):
        top = os.path.join(mount.path, name)
        while os.path.isdir(top):
            for folder, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    os.rmdir(folder)
            if os.path.isdir(top):
                if time.monotonic() > deadline:
                    raise UserError(f"{top}: cannot be removed, there are processes in it")
                time.sleep(0.05)


def _ready(launched: subprocess.Popen[bytes], console: str) -> int:
    """The pid of the new PID 1 as the host sees it, once its bus answers."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and launched.poll() is None:
        with suppress(OSError, ValueError, IndexError):  # not there yet, or already gone
            with open(f"/proc/{launched.pid}/task/{launched.pid}/children") as children:
                pid = int(children.read().split()[0])
            with open(f"/proc/{pid}/comm") as comm:
                if comm.read() == "systemd\n" and _answers(f"/proc/{pid}/root{BUS}"):
                    return pid
        time.sleep(0.05)
    with open(console) as said:
        tail = said.read()[-2000:]
    raise UserError(f"systemd did not start within {PATIENCE:.0f} s; its last output: {tail}")


def _answers(path: str) -> bool:
    """The socket exists before systemd listens on its bus: only an answered call shows that it is ready."""
    address = f"--address=unix:path={path}"
    argv = ["busctl", address, "--timeout=2", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1"]
    argv += ["org.freedesktop.DBus.Peer", "Ping"]
    if not os.path.exists(path):
        return False
    return subprocess.run(argv, cwd=FOLDER, env=environment(), capture_output=True, check=False).returncode == 0


# The code below runs in the process that becomes systemd: first in new cgroups, then in new namespaces.


def _enter(name: str, folder: str) -> None:
    """Enter new cgroups, which become the roots of the new cgroup namespace, then the new namespaces."""
    for mount in cgroup_mounts(Host()):
        top = os.path.join(mount.path, name)
        os.makedirs(top, exist_ok=True)
        if "cpuset" in mount.controllers:  # v1: no process may join before it has cores and memory
            for file in ("cpuset.cpus", "cpuset.mems"):
                with open(f"{mount.path}/{file}") as given, open(f"{top}/{file}", "w") as ours:
                    ours.write(given.read())
        with open(f"{top}/cgroup.procs", "w") as procs:
            procs.write("0")
    boot = own_python("zombiescope.lab._systemd", "boot", folder)
    os.execvp("unshare", ["unshare", *_NAMESPACES, "--kill-child=SIGKILL", "--propagation", "private", "--", *boot])


def _boot(folder: str) -> None:
    with open(f"{folder}/given.json") as file:
        given = json.load(file)
    hierarchies = [mount for mount in cgroup_mounts(Host()) if mount.version == 1 or not given["legacy"]]
    root = _overlay(folder, given["units"], given["files"])
    _mount("proc", f"{root}/proc", "proc")
    _mount(f"{root}/proc/sys", f"{root}/proc/sys", flags=_MS_BIND)
    _mount("none", f"{root}/proc/sys", flags=_MS_REMOUNT | _MS_BIND | _MS_RDONLY)
    _mount("sysfs", f"{root}/sys", "sysfs")
    _cgroups(f"{root}/sys/fs/cgroup", hierarchies)
    _devices(f"{root}/dev")
    for place in ("run", "tmp"):
        _mount("tmpfs", f"{root}/{place}", "tmpfs", data="mode=755" if place == "run" else "mode=1777")
    for place, folder in given["binds"].items():
        os.makedirs(f"{root}{place}", exist_ok=True)
        _mount(folder, f"{root}{place}", flags=_MS_BIND)
    with suppress(OSError):
        subprocess.run(["ip", "link", "set", "lo", "up"], cwd=FOLDER, env=environment(), check=False)
    os.chdir(root)
    os.makedirs("old", exist_ok=True)
    _checked(_libc().pivot_root(b".", b"old"), "pivot_root")
    os.chdir("/")
    _checked(_libc().umount2(b"/old", _MNT_DETACH), "umount /old")
    clean = {"container": "zslab", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    argv = [SYSTEMD, "--system", "--unit=zslab.target", "--log-target=console", "--show-status=no"]
    os.execve(SYSTEMD, [*argv, *(_LEGACY if given["legacy"] else ())], clean)


def _overlay(folder: str, units: Mapping[str, str], others: Mapping[str, str]) -> str:
    """An overlay of a tmpfs on this root: what systemd and its units write is gone when they exit."""
    above, root = f"{folder}/above", f"{folder}/root"
    os.makedirs(above)
    os.makedirs(root)
    _mount("tmpfs", above, "tmpfs")
    files = {path.lstrip("/"): text for path, text in others.items()}
    files |= {f"usr/lib/systemd/system/{name}": text for name, text in units.items()}
    files |= {f"etc/systemd/system/dbus.{kind}.d/alone.conf": _ALONE for kind in ("service", "socket")}
    wanted = " ".join(["dbus.socket", "dbus.service", *units])
    files["etc/systemd/system/zslab.target"] = f"{_ALONE}Wants={wanted}\n"
    for path, text in files.items():
        os.makedirs(os.path.dirname(f"{above}/upper/{path}"), exist_ok=True)
        with open(f"{above}/upper/{path}", "w") as file:
            file.write(text)
    os.makedirs(f"{above}/work")
    _mount("overlay", root, "overlay", data=f"lowerdir=/,upperdir={above}/upper,workdir={above}/work")
    return root


def _cgroups(place: str, hierarchies: list[CgroupMount]) -> None:
    """Mount the hierarchies this machine has, as the new cgroup namespace shows them; v2 alone goes at the top."""
    if all(mount.version == 2 for mount in hierarchies):
        _mount("cgroup2", place, "cgroup2")
        return
    _mount("tmpfs", place, "tmpfs", data="mode=755")
    for mount in hierarchies:
        inside = f"{place}/{os.path.basename(mount.path)}"
        os.makedirs(inside)
        if mount.version == 2:
            _mount("cgroup2", inside, "cgroup2")
        else:
            _mount("cgroup", inside, "cgroup", data=",".join(mount.controllers) or f"none,name={mount.name}")


def _devices(place: str) -> None:
    _mount("tmpfs", place, "tmpfs", data="mode=755")
    for device in _DEVICES:
        with open(f"{place}/{device}", "w"):
            pass
        _mount(f"/dev/{device}", f"{place}/{device}", flags=_MS_BIND)
    for folder in ("pts", "shm"):
        os.makedirs(f"{place}/{folder}")
    _mount("devpts", f"{place}/pts", "devpts", data="newinstance,ptmxmode=0666")
    os.symlink("pts/ptmx", f"{place}/ptmx")
    _mount("tmpfs", f"{place}/shm", "tmpfs")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(what: str, where: str, kind: str = "", *, flags: int = 0, data: str = "") -> None:
    arguments = (what.encode(), where.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None)
    _checked(_libc().mount(*arguments), f"mount {kind or 'bind'} at {where}")


def _checked(result: int, doing: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"{doing}: {os.strerror(code)}")


if __name__ == "__main__":
    if sys.argv[1] == "enter":
        _enter(*sys.argv[2:])
    else:
        _boot(*sys.argv[2:])
