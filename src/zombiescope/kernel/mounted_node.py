"""A live node seen from a container in which the node's root is mounted: `--host /host`, as a DaemonSet does it.

Files (units, packages, logs, bundles, the bus) are read below that folder, and links in it are resolved in it. What the
kernel shows depends on who asks, so each is read where the node's own PID 1 would:

    /proc              PATH/proc, else our own with hostPID: the one that shows kthreadd as pid 2
    mountinfo, net     those of PID 1; ours are the container's
    /sys, cgroups      PATH/sys, else /proc/1/root/sys: sysfs has the network cards of its mounter
    /proc/PID/cgroup   relative to the reader's cgroup namespace, so we enter the node's; likewise for its name (uts)
    /proc/sys/net      of the reader's network namespace, which we do not enter: blind unless it is the node's

The node's namespaces are those of kthreadd, pid 2: the initial ones, which no container can have.
What cannot be reached is Unreadable, with what to mount or to grant; the container's own is never taken instead.
Kernel: setns(2) into a cgroup or uts namespace needs CAP_SYS_ADMIN, /proc/2/ns and /proc/1/root CAP_SYS_PTRACE.
"""

from __future__ import annotations

import ctypes
import os
import re
import stat

from zombiescope.core import Host, Unreadable, UserError
from zombiescope.core.host import of_kernel

ENTERED = {"cgroup": 0x02000000, "uts": 0x04000000}  # CLONE_NEWCGROUP, CLONE_NEWUTS: nothing of ours depends on them
_KINDS = (*ENTERED, "net")
_CGROUPS, _HOSTNAME, _KMSG = "/sys/fs/cgroup", "/proc/sys/kernel/hostname", "/dev/kmsg"
_OF_PROCESSES = re.compile(r"/proc(/(self|thread-self|net|\d+)(/.*)?)?")
_CGROUP_OF_PROCESS = re.compile(r"/proc/(self|\d+)(/task/\d+)?/cgroup")
_OF_READER = {"/proc/self/mountinfo": "/proc/1/mountinfo", "/proc/net": "/proc/1/net"}

NO_PROCESSES = "the node's processes are not visible: run the pod with hostPID: true, or mount the node's /proc there"
NO_KERNEL_FILES = "is not below {root}: mount the node's / with all that is mounted in it, or grant CAP_SYS_PTRACE"
NO_CGROUP_NAMES = "paths are those of this container's cgroup namespace: grant CAP_SYS_ADMIN and CAP_SYS_PTRACE"
NO_NETWORK = "this container has a network of its own, or CAP_SYS_PTRACE is missing: run the pod with hostNetwork: true"

_libc = ctypes.CDLL(None, use_errno=True)


def host_at(path: str) -> Host:
    """The node whose root is mounted at `path`; a UserError where none is. Enters its cgroup and uts namespace."""
    missing = ""
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            missing = "not a folder"
    except FileNotFoundError:
        missing = "no such folder"
    except (OSError, ValueError) as error:
        missing = (getattr(error, "strerror", None) or str(error)).lower()
    missing = missing or next(
        (f"no /{part} in it" for part in ("etc", "proc") if not os.path.isdir(os.path.join(path, part))), ""
    )
    if missing:
        raise UserError(f"{path}: {missing}; --host takes the folder where the node's root is mounted")
    if os.path.realpath(path) == "/" and not os.path.normpath(path).startswith("/proc/"):
        return Host()
    return MountedNode(os.path.normpath(path))


class MountedNode(Host):
    """The node around this container."""

    def __init__(self, root: str) -> None:
        super().__init__(root, live=True)
        self._proc = next((it for it in (f"{self.root}/proc", "/proc") if _shows_all(it)), "")
        tops = [self.root, *([f"{self._proc}/1/root"] if self._proc else [])]
        self._sys = next((f"{it}/sys" for it in tops if os.path.exists(f"{it}/sys/devices/system/cpu")), "")
        self._cgroups = next((it + _CGROUPS for it in tops if _has_cgroups(it + _CGROUPS)), "")
        self._kmsg = _KMSG if os.path.exists(_KMSG) else f"{self.root}{_KMSG}"
        self.apart = frozenset(kind for kind in _KINDS if not self._together(kind))

    def real(self, path: str, *, follow: bool = True) -> str:
        plain = os.path.normpath(path)
        if _below(plain, "/proc"):
            return self._of_proc(path, plain)
        if _below(plain, _CGROUPS):
            return self._kernels(path, self._cgroups, plain.removeprefix(_CGROUPS))
        if _below(plain, "/sys"):
            return self._kernels(path, self._sys, plain.removeprefix("/sys"))
        return self._kmsg if plain == _KMSG else self._below(path, follow)

    def _is_kernels(self, path: str) -> bool:
        return of_kernel(path)

    def _of_proc(self, path: str, plain: str) -> str:
        if not self._proc and _OF_PROCESSES.fullmatch(plain):
            raise Unreadable(path, NO_PROCESSES)
        if "cgroup" in self.apart and _CGROUP_OF_PROCESS.fullmatch(plain):
            raise Unreadable(path, NO_CGROUP_NAMES)
        if "net" in self.apart and plain.startswith("/proc/sys/net/"):
            raise Unreadable(path, NO_NETWORK)
        if "uts" in self.apart and plain == _HOSTNAME:
            return self._below("/etc/hostname", follow=True)
        for of_reader, of_node in _OF_READER.items():
            if _below(plain, of_reader):
                plain = of_node + plain.removeprefix(of_reader)
        return (self._proc or "/proc") + plain.removeprefix("/proc")

    def _kernels(self, path: str, top: str, rest: str) -> str:
        if not top:
            raise Unreadable(path, NO_KERNEL_FILES.format(root=self.root))
        return top + rest

    def _together(self, kind: str) -> bool:
        """Whether we are in the node's namespace of this kind, if need be by entering it."""
        if not self._proc:
            return False
        try:
            handle = os.open(f"{self._proc}/2/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            # Threads that are started later inherit it. Where we may not enter, we are still where we were.
            if kind in ENTERED:
                _libc.setns(handle, ENTERED[kind])
            return os.path.samestat(os.fstat(handle), os.stat(f"/proc/thread-self/ns/{kind}"))
        finally:
            os.close(handle)


def _below(path: str, top: str) -> bool:
    return path.startswith(top) and path[len(top) :][:1] in ("", "/")


def _shows_all(proc: str) -> bool:
    """Whether this /proc shows the node's processes, and us among them; not only those of a container."""
    try:
        with open(f"{proc}/2/comm", "rb") as file:
            return file.read(64) == b"kthreadd\n" and os.path.exists(f"{proc}/self/stat")
    except OSError:
        return False


def _has_cgroups(folder: str) -> bool:
    """A cgroup file system, or a folder with those of version 1 in it."""
    try:
        return any(
            os.path.exists(f"{folder}/{name}cgroup.procs") for name in ("", *(f"{it}/" for it in os.listdir(folder)))
        )
    except OSError:
        return False
