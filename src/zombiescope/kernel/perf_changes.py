"""What a ring reports beside samples: names, processes, mappings, code and cgroups that come and go.

What comes by the thousand is a named tuple: it is made in a fifth of the time.
"""

from __future__ import annotations

from typing import NamedTuple


class Comm(NamedTuple):
    """A thread got a name; `execed`: by executing a program, so all its earlier mappings are gone."""

    time_ns: int
    pid: int
    tid: int
    comm: str
    execed: bool


class Fork(NamedTuple):
    """A process was forked (a thread, if both pids are the same), with the mappings of its parent."""

    time_ns: int
    pid: int
    tid: int
    parent_pid: int
    parent_tid: int


class Exit(NamedTuple):
    """A thread exited; the process as well if it was the last one."""

    time_ns: int
    pid: int
    tid: int
    parent_pid: int
    parent_tid: int


class Mmap(NamedTuple):
    """Executable memory was mapped. The kernel gives the build ID, or device and inode, never both."""

    time_ns: int
    pid: int
    address: int
    length: int
    offset: int  # in the file, in bytes
    path: str
    build_id: bytes  # b"": not given
    device: tuple[int, int]  # major and minor; (0, 0): not given
    inode: int


class Throttle(NamedTuple):
    """The kernel stopped sampling a core because it took too long (on: True), or resumed (False)."""

    time_ns: int
    cpu: int
    on: bool


class Ksymbol(NamedTuple):
    """Code was added to the kernel: a BPF program or a trampoline (not a module); `gone`: it was taken out again."""

    time_ns: int
    address: int
    length: int
    name: str
    gone: bool


class NewCgroup(NamedTuple):
    """A cgroup was created; its id is what samples carry, its path is in their hierarchy. Since 96aaab686505 (v5.7)."""

    time_ns: int
    id: int
    path: str


Record = Comm | Fork | Exit | Mmap | Throttle | Ksymbol | NewCgroup
