"""What the open files of every process are, by readlink, so many in a sample and in turns.

Files of other users' processes can be listed by root only, and those of some processes not even by root.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from zombiescope.core import Host, Unparsable, Unreadable
from zombiescope.kernel.open_links import links

LINKS = 20_000  # open files asked in a sample, 2 µs each: a node of 500 processes with 30 files each is done in one
_KTHREADD, _PF_KTHREAD = "/proc/2", 0x0020_0000  # include/linux/sched.h; it is the parent of all others
_STATUS = re.compile(r"^Name:\t([^\n]*)\n(?:.*\n)?Uid:\t[0-9]+\t([0-9]{1,10})\t.*\nFDSize:\t([0-9]{1,10})\n", re.DOTALL)


class Owner(NamedTuple):
    """A process, its name and its effective user."""

    pid: str
    name: str
    uid: str

    @property
    def called(self) -> str:
        return f"{self.name}[{self.pid}]"


@dataclass(slots=True)
class Turns:
    """Which processes had their turn, and whose files could not be listed in this round."""

    waiting: list[str] = field(default_factory=list)  # pids that had no turn yet in this round
    alive: set[str] = field(default_factory=set)
    whole: bool = False  # every process had a turn once
    listed: int = 0  # processes whose files were listed in this round
    refused: list[str] = field(default_factory=list)  # names of those whose files could not be
    large: int = 0  # processes with so many files that they are not listed

    def next(self, host: Host) -> Iterator[tuple[Owner, list[tuple[str, str]]]]:
        """The processes of this turn, each with its open files: number and what it leads to."""
        self.alive = set(host.pids()) - _kernel_threads(host)
        if not self.waiting:
            self.waiting, self.listed, self.refused, self.large = sorted(self.alive, key=int), 0, [], 0
        left = LINKS
        while self.waiting and left > 0:
            pid = self.waiting.pop(0)
            try:
                name, uid, room = parse_status(host.read(f"/proc/{pid}/status", most=65_536))
            except (Unreadable, Unparsable):
                continue  # it has exited
            if room > LINKS:  # a listing alone of a million files would take 100 MB
                self.large += 1
                continue
            owner = Owner(pid, name, uid)
            try:
                found = list(links(host, f"/proc/{pid}/fd", LINKS).items())
                left -= len(found) + 10  # status and the listing itself
            except Unreadable as error:
                self.refused += [owner.called] if "denied" in error.why else []
                self.large += error.why.startswith("more than")  # it has opened them since
                continue
            self.listed += 1
            yield owner, found
        self.whole = self.whole or not self.waiting


def _kernel_threads(host: Host) -> set[str]:
    """They have no files, and are more than half of all on a quiet node. A program can choose its name and have any
    parent in a container, but only the kernel sets the flag of a kernel thread."""
    try:
        flags = host.read_short(f"{_KTHREADD}/stat").rpartition(b")")[2].split()[6:7]
        if not flags or not int(flags[0][:20]) & _PF_KTHREAD:
            return set()
        return {"2", *host.read(f"{_KTHREADD}/task/2/children").split()}
    except (Unreadable, ValueError):
        return set()


# Name:	kubelet
# Uid:	0	0	0	0
# FDSize:	256
def parse_status(text: str) -> tuple[str, str, int]:
    """The name, the effective user, and for how many open files there is room."""
    found = _STATUS.search(text)  # the kernel escapes a newline in a name
    if found is None:
        raise Unparsable("/proc/PID/status", 1, text)
    return found[1], found[2], int(found[3])
