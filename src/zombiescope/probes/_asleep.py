"""Processes that sleep in one kernel function without ever running: interruptible, so they do not count as blocked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from zombiescope.core import Host, Reading, Unparsable, Unreadable
from zombiescope.probes._process_waits import parse_status, parse_turns

MOST = 1_000  # processes asked in a sample, 12 µs each, the youngest first
TOLD = 20  # sleeping processes reported


@dataclass(slots=True)
class Asleep:
    """Since which sample each sleeps, and its context switches then: if those are unchanged it never ran."""

    what: str  # the name of the readings
    functions: tuple[str, ...]  # of /proc/PID/wchan
    since: dict[str, tuple[float, int]] = field(default_factory=dict)

    def told(self, host: Host, at: float) -> Iterator[tuple[str, Reading]]:
        """Each that slept since an earlier sample: its pid, and for how long."""
        seen: dict[str, tuple[float, int]] = {}
        pids = sorted(host.pids(), key=int, reverse=True)
        for pid in [*self.since, *(it for it in pids if it not in self.since)][:MOST]:
            try:
                inside = host.read(f"/proc/{pid}/wchan", most=4096).strip()
                if inside not in self.functions:
                    continue
                text = host.read(f"/proc/{pid}/status", most=65_536)
                name, turns = parse_status(text)["Name"], parse_turns(text)
            except (Unreadable, Unparsable):
                continue  # it has exited, or we may not trace it
            since, before = self.since.get(pid, (at, turns))
            seen[pid] = (since, turns) if turns == before else (at, turns)
            if seen[pid][0] < at and len(seen) <= TOLD:
                source, subject = f"$ cat /proc/{pid}/wchan /proc/{pid}/status", f"process:{name}[{pid}]"
                reading = Reading(what=self.what, subject=subject, value=at - since, at=at, source=source, text=inside)
                yield pid, reading
        self.since = seen
