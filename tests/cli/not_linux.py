"""Runs the command as where only what all systems have is there: `python -m tests.cli.not_linux VERB … + VERB …`

Taken away are the functions and constants that Python has on Linux alone (each says so in its documentation), and /proc
and /sys. The rest, file names included, is still Linux: this shows that nothing of it is needed, not that macOS works.
"""

from __future__ import annotations

import errno
import mmap
import os
import platform
import resource
import select
import signal
import socket
import sys
import time

import numpy  # noqa: F401  (others' packages are made for each system, and may ask which it is)
import pyarrow  # noqa: F401
import rich.console  # noqa: F401

LINUX = {
    os: (
        *("O_PATH", "O_TMPFILE", "O_NOATIME", "O_DIRECT", "O_LARGEFILE", "O_RSYNC", "EFD_CLOEXEC", "GRND_NONBLOCK"),
        *("eventfd", "eventfd_read", "eventfd_write", "memfd_create", "pidfd_open", "getrandom", "setns", "unshare"),
        *("splice", "copy_file_range", "fdatasync", "posix_fadvise", "posix_fallocate", "getresuid", "getresgid"),
        *("sched_setaffinity", "sched_getaffinity", "sched_setscheduler", "sched_getscheduler", "sched_param"),
        *("sched_setparam", "sched_getparam", "SCHED_IDLE", "SCHED_BATCH", "SCHED_FIFO", "SCHED_OTHER"),
        *("getxattr", "setxattr", "listxattr", "removexattr", "XATTR_CREATE", "RWF_NOWAIT", "POSIX_FADV_DONTNEED"),
        *("P_PIDFD", "CLONE_NEWNS"),
    ),
    select: ("epoll", "EPOLLIN", "EPOLLOUT", "EPOLLERR", "EPOLLHUP", "POLLRDHUP"),
    socket: ("AF_NETLINK", "AF_VSOCK", "AF_PACKET", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_PEERCRED", "SO_BINDTODEVICE"),
    signal: ("SIGPWR", "SIGSTKFLT", "SIGRTMIN", "SIGRTMAX", "SIGPOLL", "pidfd_send_signal", "sigtimedwait"),
    resource: ("prlimit", "RLIMIT_NICE", "RLIMIT_RTPRIO", "RLIMIT_RTTIME", "RLIMIT_SIGPENDING", "RUSAGE_THREAD"),
    time: ("CLOCK_BOOTTIME", "CLOCK_TAI", "clock_settime"),
    mmap: ("MAP_POPULATE", "MAP_STACK", "MADV_DONTDUMP", "MADV_HUGEPAGE"),
}


def _no_kernel_files(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir", "os.readlink", "ctypes.dlsym"):
        path = arguments[0] if event != "ctypes.dlsym" else ""
        if isinstance(path, bytes | str) and os.fsdecode(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if event == "ctypes.dlsym" and arguments[1] in ("syscall", "prctl", "unshare", "setns", "statx"):
            raise AttributeError(f"dlsym: symbol not found: {arguments[1]}")


def main() -> int:
    for module, names in LINUX.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    sys.platform = "darwin"
    platform.system = lambda: "Darwin"
    sys.addaudithook(_no_kernel_files)
    from zombiescope.__main__ import main as zombiescope

    os.environ["ZOMBIESCOPE_DEBUG"] = "1"  # what is missing shows where
    commands = [command.split("\n") for command in "\n".join(sys.argv[1:]).split("\n+\n")]
    for command in commands:
        print(f"{' '.join(command[:2])}: {zombiescope(command)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
