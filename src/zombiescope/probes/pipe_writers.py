"""Processes that wait for somebody to read what they wrote to a pipe, and who holds the other end.

Overhead: one read for each process, 12 µs, at most 1,000 of them. Only where one has waited since the last sample:
    one readlink for each open file of every process, 2 µs, as many in a sample as for inotify.
Kernel: pipe_write() of fs/pipe.c sleeps interruptibly, so such a process does not count as blocked; pipe_wait() before
    v5.5. A pipe holds 64 KB by default. Left out: who waits at a terminal waits for a person; who writes to its own
    process group is part of a pipeline, and as fast as the slowest of it. /proc/PID/wchan needs the right to trace it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.probes._asleep import Asleep
from zombiescope.probes._open_files import Turns
from zombiescope.probes._process_stat import parse_job
from zombiescope.probes._remembering import keeping

EVERY = 30.0  # who stands still at a print does so until somebody comes
SECONDS, READER, COUNT = "pipe_writer_seconds", "pipe_reader", "pipe_writers"
GIVES = (SECONDS, READER, COUNT)
_CALL = re.compile(r"[0-9]{1,4} 0x([0-9a-f]{1,8}) ")  # the file is the first argument of write, writev, splice


@dataclass(slots=True)
class _Known:
    asleep: Asleep = field(default_factory=lambda: Asleep(SECONDS, ("pipe_write", "pipe_wait", "anon_pipe_write")))
    readers: dict[str, str] = field(default_factory=dict)  # by the writer's pid: who may read; empty: its own pipeline


def _told(host: Host, known: _Known) -> Iterator[Reading | Blind]:
    at = host.now()
    jobs = {pid: (it, _job(host, pid)) for pid, it in known.asleep.told(host, at)}
    stuck = [(pid, it) for pid, (it, (_, terminal)) in jobs.items() if not terminal]
    known.readers = {pid: name for pid, name in known.readers.items() if pid in known.asleep.since}
    new = {pid: pipe for pid, _ in stuck if pid not in known.readers and (pipe := _pipe(host, pid))}
    if new:
        known.readers |= _readers(host, new)
    alone = [(pid, it) for pid, it in stuck if known.readers.get(pid) != ""]
    for pid, reading in alone:
        yield reading
        if name := known.readers.get(pid):
            source = "$ ls -l /proc/[0-9]*/fd"
            yield Reading(what=READER, subject=reading.subject, value=1, at=at, source=source, text=name)
    yield Reading(what=COUNT, subject="node", value=len(alone), at=at, source="$ cat /proc/[0-9]*/wchan")


watch, read = keeping(_Known, _told)


def _job(host: Host, pid: str) -> tuple[str, bool]:
    """Its process group, and whether it is at a terminal."""
    try:
        return parse_job(host.read(f"/proc/{pid}/stat", most=65_536))
    except (Unreadable, Unparsable):
        return "", True  # it has exited


def _pipe(host: Host, pid: str) -> str:
    """The pipe that it writes to: "pipe:[1234]"; empty where that is not known."""
    try:
        call = _CALL.match(host.read(f"/proc/{pid}/syscall", most=4096))
        return host.link(f"/proc/{pid}/fd/{int(call[1], 16)}") if call else ""
    except Unreadable:
        return ""


def _readers(host: Host, pipes: dict[str, str]) -> dict[str, str]:
    """By the writer's pid: another process that has its pipe open for reading; empty if that is of the same group."""
    found: dict[str, str] = {}
    for owner, files in Turns().next(host):
        for number, link in files:
            for pid in [it for it, pipe in pipes.items() if pipe == link and it not in (owner.pid, *found)]:
                if _reads(host, owner.pid, number):
                    found[pid] = "" if _job(host, owner.pid)[0] == _job(host, pid)[0] else owner.called
    return found


def _reads(host: Host, pid: str, number: str) -> bool:
    """The last octal digit of its flags: 0 read, 1 write, 2 both."""
    try:
        flags = re.search(r"^flags:\s*([0-7]+)$", host.read(f"/proc/{pid}/fdinfo/{number}", most=65_536), re.MULTILINE)
    except Unreadable:
        return False
    return flags is not None and flags[1][-1] in "02"
