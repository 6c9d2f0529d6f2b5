"""Processes that wait: for a core (runnable but not running), or in uninterruptible sleep (blocked).

Both are few and are read one by one; the number read is bounded, however many wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.held_files import HeldFiles
from zombiescope.kernel.text import cores, count, lines
from zombiescope.probes._blocked_on import FROZEN, NODES_MOUNTS, mount_written
from zombiescope.probes._process_stat import Process

DELAY, RAN = "process_run_delay_seconds_total", "process_run_seconds_total"  # of its first thread
CORE, ALLOWED, GROUP = "process_cpu", "process_cpus_allowed", "process_in_cgroup"
BLOCKED, WRITES, DEVICE = "process_blocked_seconds", "process_blocked_on_mount", "process_blocked_on_device"
GIVES = (DELAY, RAN, CORE, ALLOWED, GROUP, BLOCKED, WRITES, DEVICE)
FOLLOWED = 50  # processes whose run delay is read in a sample, 25 µs each: runnable ones first, then the busiest
WAITING = 0.2  # of the time: a process that waits less is not starved, so its affinity need not be read
ASKED = 10  # waiting processes whose affinity and cgroup are read, 60 µs each
STUCK = 20  # blocked processes read in detail, 60 µs each, and as much again once for where each runs

Key = tuple[int, int]
_UNREAD = b"", (0.0, 0.0, 0)


class Wait(NamedTuple):
    """The state of a followed process in one sample."""

    at: float
    runnable: bool
    ran: float
    turns: int
    waited: float

    def went_on(self, now: Wait) -> Wait:
        """The kernel adds a wait when it ends: a runnable process that did not run since has waited all the time."""
        if self.runnable and now.runnable and (self.ran, self.turns) == (now.ran, now.turns):
            return now._replace(waited=max(now.waited, self.waited + now.at - self.at))
        return now if now.waited >= self.waited else now._replace(waited=self.waited)


@dataclass(slots=True)
class RunDelay:
    """Processes that wait for a core, followed from sample to sample."""

    followed: dict[Key, Wait] = field(default_factory=dict)
    lines: dict[Key, tuple[bytes, tuple[float, float, int]]] = field(default_factory=dict)  # as last read: most hold

    def told(
        self, files: HeldFiles, at: float, alive: Mapping[Key, Process], busy: list[Key]
    ) -> Iterator[Reading | Blind]:
        """A starved process is runnable in every sample. Processes followed before are kept while there is room."""
        runnable = sorted((key for key, it in alive.items() if it.state == "R"), key=lambda key: alive[key].used)
        wanted = dict.fromkeys((*runnable, *busy, *(key for key in self.followed if key in alive)))
        seen: dict[Key, Wait] = {}
        missed: Unreadable | None = None
        before_lines, self.lines = self.lines, {}
        asked = 0
        for key in [key for key in wanted if not alive[key].polite][:FOLLOWED]:
            process, source = alive[key], f"/proc/{key[0]}/schedstat"
            if process.cpu >= 0:
                stat = f"/proc/{key[0]}/stat"
                yield Reading(what=CORE, subject=process.subject, value=process.cpu, at=at, source=stat)
            try:
                line, (known, said) = files.read(source), before_lines.get(key, _UNREAD)
                if line != known:
                    said = parse_schedstat(line.decode("utf-8", "surrogateescape"), source)
                self.lines[key] = line, said
                ran, waited, turns = said
                if not ran and not waited and process.used:
                    raise Unreadable(source, "this kernel does not count run delay: boot with delayacct")
            except Unreadable as error:
                missed = error  # it has exited, or none can be read
                continue
            except Unparsable as error:
                yield Blind(what=DELAY, source=source, why=error.why, subject=process.subject)
                continue
            now = Wait(at, process.state == "R", ran, turns, waited)
            before = self.followed.get(key, now)
            seen[key] = now = before.went_on(now)
            yield Reading(what=DELAY, subject=process.subject, value=now.waited, at=at, source=source)
            yield Reading(what=RAN, subject=process.subject, value=now.ran, at=at, source=source)
            if asked < ASKED and now.waited - before.waited > WAITING * (at - before.at):
                asked += 1
                yield from where(files.host, process, at)
        self.followed = seen
        if missed and not seen:
            yield Blind(what=DELAY, source=missed.source, why=missed.why)


def where(host: Host, process: Process, at: float) -> Iterator[Reading | Blind]:
    """The cores it may run on, and its cgroup."""
    status, group = f"/proc/{process.pid}/status", f"/proc/{process.pid}/cgroup"
    try:
        allowed = parse_status(host.read(status), status).get("Cpus_allowed_list", "")
        if many := len(cores(allowed, status)):
            yield Reading(what=ALLOWED, subject=process.subject, value=many, at=at, source=status, text=allowed)
        if path := parse_group(host.read(group)):
            yield Reading(what=GROUP, subject=process.subject, value=1, at=at, source=group, text=path)
    except Unreadable:
        return  # it has exited
    except Unparsable as error:
        yield Blind(what=ALLOWED, source=error.source, why=error.why, subject=process.subject)


@dataclass(slots=True)
class Blockade:
    """Blocked processes: since which sample, and their context switches then. If those are unchanged, it never ran."""

    since: dict[Key, tuple[float, int]] = field(default_factory=dict)
    telling: dict[Key, str] = field(default_factory=dict)

    def told(self, host: Host, at: float, blocked: Mapping[Key, Process]) -> Iterator[Reading | Blind]:
        seen: dict[Key, tuple[float, int]] = {}
        telling: dict[Key, str] = {}
        # Those seen before come first: how long matters more than how many, which is reported anyway.
        ranked = sorted(blocked.items(), key=lambda it: self.since.get(it[0], (at, 0))[0])
        for key, process in ranked[:STUCK]:
            source = f"/proc/{process.pid}/status"
            try:
                turns = parse_turns(host.read(source), source)
            except Unreadable:
                continue  # it has exited
            except Unparsable as error:
                yield Blind(what=BLOCKED, source=source, why=error.why, subject=process.subject)
                continue
            since, before = self.since.get(key, (at, turns))
            seen[key] = (since, turns) if turns == before else (at, turns)
            if seen[key][0] < at:
                telling[key] = process.subject
                source, inside = (
                    f"$ cat /proc/{process.pid}/stat /proc/{process.pid}/wchan",
                    _sleeping_in(host, process.pid),
                )
                yield Reading(
                    what=BLOCKED, subject=process.subject, value=at - since, at=at, source=source, text=inside
                )
                if key not in self.telling:
                    yield from where(host, process, at)
                    yield from _mount_of(host, process, at, inside)
        for key, subject in self.telling.items():
            if key not in telling:
                source = f"$ cat /proc/{key[0]}/stat"
                yield Reading(what=BLOCKED, subject=subject, value=0, at=at, source=source)
        self.since, self.telling = seen, telling
        if len(ranked) > STUCK:
            why = f"{len(ranked) - STUCK:,} blocked processes more than {STUCK} were not read in detail"
            yield Blind(what=BLOCKED, source="/proc", why=why, subject="node")


def _mount_of(host: Host, process: Process, at: float, inside: str) -> Iterator[Reading]:
    """The frozen file system that it writes to. Asked only of who sleeps as such a writer does, and once."""
    if inside in FROZEN and (its := mount_written(host, process.pid)):
        source = f"$ cat /proc/{process.pid}/syscall /proc/{process.pid}/mountinfo"
        yield Reading(what=WRITES, subject=process.subject, value=1, at=at, source=source, text=its.words)
        where, text = (1, f"{its.device} {its.place}") if its.place else (0, its.device)
        yield Reading(what=DEVICE, subject=process.subject, value=where, at=at, source=NODES_MOUNTS, text=text)


def _sleeping_in(host: Host, pid: int) -> str:
    """The kernel function that it waits in; the kernel writes "0" for readers without the right to know."""
    try:
        name = host.read(f"/proc/{pid}/wchan", most=4096).strip()
    except Unreadable:
        return ""
    return name if name != "0" else ""


# 559752743 2136075119 56
def parse_schedstat(text: str, source: str = "schedstat") -> tuple[float, float, int]:
    """Seconds on a core, seconds waiting for one, and how often it ran."""
    try:
        run, delay, turns = map(count, text.split())
        return run / 1e9, delay / 1e9, turns
    except ValueError:
        raise Unparsable(source, 1, text) from None


# Cpus_allowed_list:	0-1
# voluntary_ctxt_switches:	150
# nonvoluntary_ctxt_switches:	545
def parse_status(text: str, source: str = "status") -> dict[str, str]:
    found = {}
    for line in lines(text):
        key, _, value = line.partition(":\t")
        found[key] = value
    if "Name" not in found:
        raise Unparsable(source, 1, text)
    return found


def parse_turns(text: str, source: str = "status") -> int:
    """Context switches, voluntary or not."""
    status = parse_status(text, source)
    try:
        return sum(count(status[key]) for key in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"))
    except (ValueError, KeyError):
        raise Unparsable(source, 1, text) from None


# 2:cpu,cpuacct:/kubepods/pod1
# 0::/system.slice/a.service
def parse_group(text: str) -> str:
    """The cgroup that limits its CPU: of the v1 cpu hierarchy if there is one, else of v2."""
    groups = {}
    for line in lines(text):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups.get("cpu", groups.get("", ""))
