"""Functions of just-in-time compilers of running processes, from the map that each writes into its own /tmp.

The file is named after the pid that the process has in its own namespace, is looked for in its own root, and belongs to
it or to root: anything else there (a FIFO, a link, the file of somebody else) is left alone, and `why` says so. It is
only appended to: when it has grown, the new part is read.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.kernel.aside import Aside, Task
from zombiescope.naming.clean import clean
from zombiescope.naming.contents import contents, readable
from zombiescope.naming.file_systems import MountTables
from zombiescope.naming.perf_map import LARGEST, PerfMap
from zombiescope.processes.opening import identity, inside, place

MOST_PROCESSES = 256  # with a map; a node runs some tens of JITs
MOST_MEMORY = 256 << 20
AGAIN = 1.0  # seconds from one read to the next, for one process
ABSENT_AGAIN = 10.0  # the same where there is no map: at first as often, then less; most runtimes write none
_EXPECTED = 4  # times in which a process that has just begun may still write one
SHARE = 0.02  # of a core, for one process: a map that is costly to read is read less often
_STATUS = re.compile(r"^Uid:\s+\d+\s+(\d+)|^NSpid:.*?(\d+)$", re.MULTILINE)
_ABSENT = "no such file or directory"


class _Read(NamedTuple):
    """A map as far as it was read."""

    map: PerfMap
    inode: int = 0
    size: int = 0


@dataclass(slots=True)
class _Process:
    read: _Read
    task: Task[tuple[_Read, float]] | None = None
    next_look: float = 0.0
    absent: int = 0  # times that there was no map
    why: str = ""


class PerfMaps:
    """By pid; forgotten with the process, or the least recently used."""

    def __init__(self, aside: Aside, tables: MountTables, clock: Callable[[], float] = time.monotonic) -> None:
        self._aside, self._tables, self._clock = aside, tables, clock
        self._known: OrderedDict[int, _Process] = OrderedDict()
        self._memory = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def why(self) -> dict[int, str]:
        """Why a map is not used, by pid; that there is none is no reason."""
        return {pid: process.why for pid, process in self._known.items() if process.why}

    def name(self, pid: int, address: int) -> tuple[str | None, bool]:
        """The function at an address, None for none; and whether that is final."""
        process = self._known.get(pid)
        name = process.read.map.name(address) if process is not None else None
        if name is None:
            process = self._looked(pid)
            name = process.read.map.name(address)
        self._known.move_to_end(pid)
        # A map that is there may have the function in a moment: some runtimes write it after the first call.
        final = name is not None or (process is not None and process.absent >= _EXPECTED and not process.read.size)
        return (None if name is None else clean(name)), final

    def known(self, pid: int) -> bool:
        """Whether it has a map that is in use."""
        return pid in self._known and self._known[pid].read.size > 0

    def ended(self, pid: int) -> None:
        """The process is gone, and all its samples have names."""
        gone = self._known.pop(pid, None)
        if gone is not None:
            self._memory -= gone.read.map.memory

    def _looked(self, pid: int) -> _Process:
        process = self._known.get(pid)
        if process is None:
            process = self._known[pid] = _Process(_Read(PerfMap.parse(b"")))
        if process.task is None and self._clock() >= process.next_look:
            process.task = self._aside.run(lambda: _timed(pid, process.read, self._tables), pid)
            process.next_look = self._clock() + AGAIN
        if process.task is not None and process.task.done:
            self._taken(process, process.task)
            process.task = None
            self._forget(pid)
        return process

    def _taken(self, process: _Process, task: Task[tuple[_Read, float]]) -> None:
        try:
            read, seconds = task.result()
        except (Unreadable, Unparsable) as error:
            process.why = "" if error.why == _ABSENT else f"{error.why} ({error.source})"
            process.absent += 1
            process.next_look = self._clock() + min(ABSENT_AGAIN, AGAIN * 2 ** min(process.absent, 8))
            return
        except (OSError, ValueError, MemoryError) as error:
            process.why = str(error)
            return
        self._memory += read.map.memory - process.read.map.memory
        process.read, process.why, process.absent = read, "", 0
        process.next_look = self._clock() + max(AGAIN, seconds / SHARE)

    def _forget(self, but: int) -> None:
        while len(self._known) > 1 and (len(self._known) > MOST_PROCESSES or self._memory > MOST_MEMORY):
            oldest = next(iter(self._known))
            if oldest == but:
                self._known.move_to_end(but)
                continue
            self.ended(oldest)


def _timed(pid: int, before: _Read, tables: MountTables) -> tuple[_Read, float]:
    started = time.thread_time()
    return _read(pid, before, tables), time.thread_time() - started


def _read(pid: int, before: _Read, tables: MountTables) -> _Read:
    path, owner = _expected(pid)
    mounts = tables.of(str(pid))
    mounts.check_path(path)
    with readable(path), place(f"/proc/{pid}/root") as root, inside(root, path) as descriptor:
        which = identity(descriptor)
        mounts.check_file(path, descriptor, which.device)
        if which.owner not in (owner, 0):
            raise Unreadable(path, f"belongs to user {which.owner}, not to the process's own ({owner}) or root")
        same = (which.inode, before.size) == (before.inode, min(before.size, which.size))
        begin = before.size if same else 0
        if same and which.size == begin:
            return before
        with closing(contents(descriptor, which.size, path)) as file:
            text = file.read(begin, LARGEST - begin)
    text = text[: text.rfind(b"\n") + 1]  # a line that is being written is read the next time
    found = PerfMap.parse(text) if not begin else before.map.followed_by(PerfMap.parse(text))
    return _Read(found, which.inode, begin + len(text))


def _expected(pid: int) -> tuple[str, int]:
    """Where its map is in its own root, and who must own it."""
    source = f"/proc/{pid}/status"
    try:
        with open(source, encoding="utf-8", errors="surrogateescape") as file:
            found = _STATUS.findall(file.read(1 << 16))
    except OSError as error:
        raise Unreadable(source, (error.strerror or "").lower()) from None
    user = next((int(uid) for uid, _ in found if uid), -1)
    inner = next((int(number) for _, number in found if number), pid)  # no NSpid before v4.1
    return f"/tmp/perf-{inner}.map", user
