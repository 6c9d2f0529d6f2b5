"""Processes that wait for a FUSE daemon. They sleep interruptibly at first, so they do not count as blocked.

Kernel: request_wait_answer() of fs/fuse/dev.c waits so that a signal can be passed on to the daemon; only after one is
the wait killable (state D).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from zombiescope.core import Host, Reading, Unparsable, Unreadable
from zombiescope.probes._process_waits import parse_status, parse_turns

SECONDS = "fuse_waiter_seconds"
MOST = 1_000  # processes asked in a sample, 12 µs each, and only while a daemon has not answered
TOLD = 20  # waiting processes reported
_WAITS = "request_wait_answer"  # /proc/PID/wchan


@dataclass(slots=True)
class Waiters:
    """Since which sample each waits, and its context switches then: if those are unchanged it never ran."""

    since: dict[str, tuple[float, int]] = field(default_factory=dict)

    def told(self, host: Host, at: float) -> Iterator[Reading]:
        seen: dict[str, tuple[float, int]] = {}
        pids = sorted((it for it in host.listing("/proc") if it.isdecimal()), key=int, reverse=True)
        for pid in [*self.since, *(it for it in pids if it not in self.since)][:MOST]:
            try:
                if host.read(f"/proc/{pid}/wchan", most=4096).strip() != _WAITS:
                    continue
                text = host.read(f"/proc/{pid}/status", most=65_536)
                name, turns = parse_status(text)["Name"], parse_turns(text)
            except (Unreadable, Unparsable):
                continue  # it has exited, or we may not trace it
            since, before = self.since.get(pid, (at, turns))
            seen[pid] = (since, turns) if turns == before else (at, turns)
            if seen[pid][0] < at and len(seen) <= TOLD:
                source = f"$ cat /proc/{pid}/wchan /proc/{pid}/status"
                subject = f"process:{name}[{pid}]"
                yield Reading(what=SECONDS, subject=subject, value=at - since, at=at, source=source, text=_WAITS)
        self.since = seen
