"""Creations, removals and releases of cgroups as they happen, with paths, from the kernel's tracepoints.

A removed cgroup is released when the last thing that pins it is gone. In between it is a dying cgroup (zombie), and
the time between the two events is its age. Events go to a private instance (a ring buffer of our own), so that other
tracers on the node are not disturbed. No kprobes, no BPF.

Overhead: none while nothing happens; about 11 µs of CPU to read an event. The buffer is bounded; lost events are
    counted.
Kernel: include/trace/events/cgroup.h; the tracepoints came with v4.13, instances with v3.10. Fires for v1 and v2.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from zombiescope.core import Host, Unreadable
from zombiescope.kernel.private_mount import USUAL, mounted
from zombiescope.kernel.text import lines

KINDS = ("mkdir", "rmdir", "release")
SOURCE = f"{USUAL['tracefs'][0]}/events/cgroup"
_BUFFER_KB = 512  # for each core: about 4,000 events between two reads
_INSTANCE = re.compile(r"zombiescope-\d+(-\d+)?")
_MOST_NAMES = 100  # recorders with the same pid, each in a pid namespace of its own
#            runc-2811    [001] ...1.  1047.513902: cgroup_mkdir: root=4 id=221 level=2 path=/docker/5f0c…
# Whoever makes a cgroup chooses its name, which may look like such a line, and its own (15 bytes, padded to 16, perhaps
# with a newline in it, which a cgroup's name cannot have: cgroup_mkdir() refuses it). So a line is read from its
# beginning, and the first event in it counts: 16 bytes hold no other event, and after path= all is the path.
_LINE = re.compile(
    rb"(?P<comm>.{0,16}?)-(?P<pid>\d+) +\[\d+\] \S+ +(?P<at>\d+\.\d+): "
    rb"cgroup_(?P<kind>mkdir|rmdir|release): root=(?P<root>\d+) id=(?P<id>\d+) level=(?P<level>\d+) path=(?P<path>.*)",
    re.DOTALL,
)


class CgroupEvent(NamedTuple):
    """One cgroup was created (mkdir), removed (rmdir) or released (release)."""

    at: float  # unix seconds
    kind: str
    root: int  # the hierarchy's number, as in /proc/cgroups
    id: int
    path: str
    comm: str  # who did it; releases are done by kernel workers


class CgroupEvents:
    """An open stream of events. `lost` counts what the buffer could not hold."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._pipe = os.open(f"{instance}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._torn = b""
        self.lost = 0

    def close(self) -> None:
        os.close(self._pipe)

    def read(self) -> list[CgroupEvent]:
        """All that happened since the last call; and how many were lost, if any came: a buffer overflows when full."""
        parts = [self._torn]
        # One read returns a few pages at most, whatever the buffer's size; EAGAIN says that was all.
        with suppress(BlockingIOError):
            while part := os.read(self._pipe, 1 << 16):
                parts.append(part)
        if len(parts) > 1:
            self.lost = self._count_lost()
        *lines, self._torn = b"".join(parts).split(b"\n")
        offset = time.time() - time.monotonic()
        return [event for line in lines if (event := parse(line, offset)) is not None]

    def _count_lost(self) -> int:
        lost = 0
        for cpu in os.listdir(f"{self._instance}/per_cpu"):
            with open(f"{self._instance}/per_cpu/{cpu}/stats", "rb") as stats:
                lost += sum(int(found) for found in re.findall(rb"(?:overrun|dropped events): (\d+)", stats.read()))
        return lost


def parse(line: bytes, offset: float = 0.0) -> CgroupEvent | None:
    """One line of trace_pipe; None if it is not an event (the kernel also reports lost events there)."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    return CgroupEvent(
        at=float(found["at"]) + offset,
        kind=found["kind"].decode(),
        root=int(found["root"]),
        id=int(found["id"]),
        path=os.fsdecode(found["path"]),
        comm=os.fsdecode(found["comm"]).strip(),
    )


@contextmanager
def watching(root: int | None = None, host: Host | None = None) -> Iterator[CgroupEvents]:
    """Record events from now on, of one hierarchy if its number is given; leaves nothing behind."""
    with mounted("tracefs", host) as tracefs, _own_instance(tracefs) as instance:
        events = None
        try:
            # The same clock as time.monotonic(), so that a time can be given in unix seconds.
            _write(instance, "trace_clock", "mono")
            _write(instance, "buffer_size_kb", str(_BUFFER_KB))
            for kind in KINDS:
                if root is not None:
                    _write(instance, f"events/cgroup/cgroup_{kind}/filter", f"root == {root}")
                _write(instance, f"events/cgroup/cgroup_{kind}/enable", "1")
            events = CgroupEvents(instance)
            yield events
        except FileNotFoundError as error:
            raise Unreadable(SOURCE, "this kernel has no cgroup tracepoints") from error
        finally:
            if events is not None:
                events.close()


def memory_hierarchy(host: Host) -> int:
    """The number that events give the hierarchy of the memory controller; v2 is 0, and may have no row."""
    for line in lines(host.read("/proc/cgroups")):
        name, *numbers = line.split("\t")
        if name == "memory" and numbers and numbers[0].isdecimal():
            return int(numbers[0][:9])
    return 0


@contextmanager
def _own_instance(tracefs: str) -> Iterator[str]:
    """A new instance, with a lock on it for as long as we live: a pid alone says nothing across containers."""
    folder = f"{tracefs}/instances"
    try:
        _clean(folder)
        instance, lock = _made(folder)
    except OSError as error:
        raise Unreadable(SOURCE, f"{(error.strerror or '').lower()}; recording events needs root") from error
    try:
        yield instance
    finally:
        with suppress(OSError):
            os.rmdir(instance)
        os.close(lock)


def _made(folder: str) -> tuple[str, int]:
    for number in range(_MOST_NAMES):
        instance = f"{folder}/zombiescope-{os.getpid()}" + (f"-{number}" if number else "")
        try:
            os.mkdir(instance)
            lock = _locked(instance)
        except (FileExistsError, FileNotFoundError):  # a neighbour's; or a neighbour removed it before it was locked
            continue
        if lock is not None:
            if os.path.exists(instance):  # from now on nobody removes it
                return instance, lock
            os.close(lock)
    raise Unreadable(SOURCE, f"{_MOST_NAMES} tracefs instances with names of ours are in use")


def _clean(folder: str) -> None:
    """Remove instances that killed runs of this tool left behind, also those of other containers.

    Whoever lives has a lock on its own; the kernel itself refuses to remove one whose events are being read.
    """
    for name in os.listdir(folder):
        with suppress(OSError):
            if _INSTANCE.fullmatch(name) and (lock := _locked(f"{folder}/{name}")) is not None:
                try:
                    os.rmdir(f"{folder}/{name}")
                finally:
                    os.close(lock)


def _locked(instance: str) -> int | None:
    """A handle with the lock; None if somebody else has it."""
    handle = os.open(instance, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _write(instance: str, name: str, value: str) -> None:
    with open(f"{instance}/{name}", "w") as file:
        file.write(value)
