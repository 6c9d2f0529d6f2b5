"""Parse one line of /proc/PID/stat, or of one thread's /proc/PID/task/TID/stat."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.core import Unparsable
from zombiescope.kernel.text import counts

# include/uapi/linux/sched.h: policies that run before every normal thread, until they sleep.
REALTIME = {1: "SCHED_FIFO", 2: "SCHED_RR", 6: "SCHED_DEADLINE"}
_IDLE = 5  # SCHED_IDLE
_DEADLINE = 100  # for comparing: above the highest real-time priority, 99 (/proc shows 0 for SCHED_DEADLINE)
_USER_HZ = 100


class Process(NamedTuple):  # a dataclass that cannot be changed takes three times as long to make
    """A process, or one of its threads, in one sample."""

    pid: int
    name: str
    state: str
    user: float
    system: float
    born: int  # ticks since boot: with the pid it identifies a process, as pids are reused
    parent: int = 0
    children: float = 0.0  # seconds used by children that it has reaped
    threads: int = 1
    cpu: int = -1  # where it ran last; -1 if the kernel does not say
    priority: int = 0  # real-time priority
    policy: int = 0
    nice: bool = False  # runs only when nothing else wants the core
    of: str = ""  # the process that it is a thread of; empty for a process

    @property
    def used(self) -> float:
        return self.user + self.system

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.born

    @property
    def subject(self) -> str:
        return f"{'thread' if self.of else 'process'}:{self.name}[{self.pid}]"

    @property
    def defunct(self) -> bool:
        """A zombie: exited, not reaped. A process of which only the first thread exited looks alike, but has others."""
        return self.state == "Z" and self.threads <= 1

    @property
    def polite(self) -> bool:
        """Low priority by choice (nice, SCHED_IDLE): waiting is normal for it. Real-time policies know no nice."""
        return (self.nice and self.policy not in REALTIME) or self.policy == _IDLE

    @property
    def realtime(self) -> tuple[int, str] | None:
        """Its real-time priority and the name of its policy, if it has one."""
        if self.policy not in REALTIME:
            return None
        name = REALTIME[self.policy]
        return (_DEADLINE, name) if name == "SCHED_DEADLINE" else (self.priority, f"{name} {self.priority}")


# 1 (systemd) S 0 1 1 0 -1 4194560 70318 2116398 91 1233 212 478 4713 2206 20 0 1 0 7 173817856 3229 …
# 2811 (a) b) R 2810 2811 2810 34816 2811 4194304 95 0 0 0 150 3 0 0 20 0 1 0 88123 …
def parse(text: str, pid: str = "PID", of: str = "") -> Process:
    head, closed, tail = text.rpartition(")")
    number, opened, name = head.partition(" (")
    fields = tail.split(None, 39)  # what follows is not asked for
    try:
        if not closed or not opened or len(fields) < 20 or len(fields[0]) != 1:
            raise ValueError
        # Unsigned fields only; the priority in between may be negative. Field 39 and later came with 2.6.22.
        own, parent, user, system, child_user, child_system, threads, born, *known = counts(
            [number, fields[1], *fields[11:15], fields[17], fields[19], *fields[36:39]]
        )
        cpu, priority, policy = known if len(known) == 3 else (-1, 0, 0)
        nice = fields[16][0] != "-" and fields[16] != "0"
        times = user / _USER_HZ, system / _USER_HZ
        children = (child_user + child_system) / _USER_HZ
        return Process(own, name, fields[0], *times, born, parent, children, threads, cpu, priority, policy, nice, of)
    except ValueError:
        raise Unparsable(f"/proc/{pid}/stat", 1, text) from None


def parse_job(text: str) -> tuple[str, bool]:
    """Its process group (field 5), and whether it was started at a terminal: field 7, tty_nr, is not 0."""
    fields = text.rpartition(")")[2].split()
    if len(fields) < 5:
        raise Unparsable("/proc/PID/stat", 1, text)
    return fields[2], fields[4] != "0"
