"""Threads of the busiest processes, one by one: the line of a process shows its first thread only.

A process may have thousands: so many are read in a sample, by turns, and those found real-time, waiting or blocked are
followed from then on. Threads that had no turn yet are counted as unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from zombiescope.core import Blind, Reading, Unparsable, Unreadable
from zombiescope.kernel.held_files import HeldFiles
from zombiescope.probes._process_stat import Process, parse
from zombiescope.probes._process_waits import WAITING, Key, Wait, parse_schedstat, where

PRIORITY, CORE, USED = "thread_realtime_priority", "thread_realtime_cpu", "thread_realtime_seconds_total"
DELAY, RAN, AT = "task_run_delay_seconds_total", "task_run_seconds_total", "task_cpu"
UNREAD = "threads_unread"
GIVES = (PRIORITY, CORE, USED, DELAY, RAN, AT, UNREAD)
READ = 200  # threads in a sample, 90 µs each: 2,000 have all had a turn after 50 s
LISTED = 50_000  # threads of one process whose numbers are listed, 4 MB
KEPT = 20_000  # threads whose last turn is remembered, 0.2 KB each
FOLLOWED = 50  # threads that are read in every sample: real-time, blocked, or waiting for a core


@dataclass(slots=True)
class Threads:
    """What is kept from sample to sample."""

    waits: dict[Key, Wait] = field(default_factory=dict)  # when each had its last turn
    followed: dict[str, Process] = field(default_factory=dict)  # by number: of which process
    rounds: dict[Key, set[str]] = field(default_factory=dict)  # by process: those that had a turn in this round
    whole: set[Key] = field(default_factory=set)  # processes of which all had a turn once
    blocked: dict[Key, Process] = field(default_factory=dict)  # in this sample
    # By process and line, in the last sample and in this one: most threads did not run in between.
    known: dict[tuple[str, bytes], Process] = field(default_factory=dict)
    parsed: dict[tuple[str, bytes], Process] = field(default_factory=dict)

    def told(self, files: HeldFiles, at: float, busy: Sequence[Process]) -> Iterator[Reading | Blind]:
        followed, self.followed, self.blocked = self.followed, {}, {}
        before, self.waits = self.waits, {}
        self.known, self.parsed = self.parsed, {}
        for number, process in followed.items():
            yield from self._one(files, at, process, number, before)
        left, unread = READ - len(followed), 0
        for process in busy:
            try:
                names, more = files.host.first_names(f"/proc/{process.pid}/task", LISTED)
            except Unreadable:
                continue  # it has exited
            had = self.rounds.get(process.key, set())
            turn = [it for it in names if it not in had]
            if not turn:
                had, turn = set(), names
            now = turn[: max(left, 0)]
            for number in now:
                if number not in followed:
                    yield from self._one(files, at, process, number, before)
            left -= len(now)
            self.rounds[process.key] = {*had, *now}
            if len(now) == len(turn):
                self.whole.add(process.key)
            unread += 0 if process.key in self.whole else len(turn) - len(now)
            unread += max(process.threads - len(names), 1) if more else 0
        alive = {it.key for it in busy}
        self.rounds = {key: it for key, it in self.rounds.items() if key in alive}
        self.whole &= alive
        kept = list(before.items())[-KEPT:]
        self.waits = dict(kept) | self.waits
        text = max(busy, key=lambda it: it.threads).subject if busy else ""
        yield Reading(what=UNREAD, subject="node", value=unread, at=at, source="$ ls /proc/[0-9]*/task", text=text)

    def _thread(self, line: bytes, process: Process, number: str) -> Process:
        key = process.subject, line
        thread = self.known.get(key)
        if thread is None:
            text = line.decode("utf-8", "surrogateescape")
            thread = parse(text, f"{process.pid}/task/{number}", process.subject)
        self.parsed[key] = thread
        return thread

    def _one(
        self, files: HeldFiles, at: float, process: Process, number: str, before: Mapping[Key, Wait]
    ) -> Iterator[Reading | Blind]:
        source = f"/proc/{process.pid}/task/{number}/stat"
        schedstat = f"/proc/{process.pid}/task/{number}/schedstat"
        try:
            thread = self._thread(files.read(source), process, number)
        except Unreadable:
            return  # it has exited
        except Unparsable as error:
            yield Blind(what=PRIORITY, source=source, why=error.why, subject=process.subject)
            return
        text = f"of {process.name}[{process.pid}]"
        if (realtime := thread.realtime) is not None:
            priority, policy = realtime
            for what, value in zip(GIVES, (priority, thread.cpu, thread.used), strict=False):
                words = f"{policy}, {text}"
                yield Reading(what=what, subject=thread.subject, value=value, at=at, source=source, text=words)
        if thread.pid == process.pid:
            return  # whether the first thread waits or is blocked is read with its process
        if thread.state == "D":
            self.blocked[thread.key] = thread
        waiting = False
        try:
            ran, waited, turns = parse_schedstat(files.read(schedstat).decode("utf-8", "surrogateescape"), schedstat)
            now = Wait(at, thread.state == "R", ran, turns, waited)
            last = before.get(thread.key)
            if last is None:  # whether it waits, the next sample shows
                waiting = thread.state == "R"
            else:
                now = last.went_on(now)
                waiting = now.waited - last.waited > WAITING * (at - last.at)
            self.waits[thread.key] = now
            if waiting and not thread.polite and not realtime:
                figures = {DELAY: now.waited, RAN: now.ran, AT: thread.cpu}
                for what, value in figures.items():
                    yield Reading(what=what, subject=thread.subject, value=value, at=at, source=schedstat, text=text)
                yield from where(files.host, thread, at)
        except Unreadable:
            pass  # it has exited, or this kernel has no such file: its first thread says so too
        except Unparsable as error:
            yield Blind(what=DELAY, source=schedstat, why=error.why, subject=process.subject)
        if (realtime or waiting or thread.state == "D") and len(self.followed) < FOLLOWED:
            self.followed[number] = process
