"""Inotify instances in use, by user, and how many a user may have.

Overhead: two reads for each process and one readlink for each open file, 2 µs; at most `LINKS` of them in a sample,
    in turns; a process with room for more is left out. Every `EVERY` seconds only: 500 processes with 30 files each
    take 40 ms.
Kernel: fs/notify/inotify/inotify_user.c; the limit is fs.inotify.max_user_instances, for each user and, since
    1cce1eea0aff (in v4.11), for each user namespace too. Files of other users' processes can be listed by root only;
    a process that shares its files with another (CLONE_FILES) is counted twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.text import count

EVERY = 30.0
USED, LIMIT = "inotify_instances", "inotify_instances_limit"
GIVES = (USED, LIMIT)
LINKS = 20_000  # open files asked in a sample, 40 ms: a node of 500 processes is done in one
SHOWN = 3  # processes named, those with most first
_LIMIT = "/proc/sys/fs/inotify/max_user_instances"
_IS_INOTIFY = ("anon_inode:inotify", "anon_inode:[inotify]")  # the latter in some older kernels
_STATUS = re.compile(r"^Name:\t([^\n]*)\n(?:.*\n)?Uid:\t[0-9]+\t([0-9]{1,10})\t.*\nFDSize:\t([0-9]{1,10})\n", re.DOTALL)
_Own = tuple[str, str, int]  # user, name, how many


@dataclass(slots=True)
class _Known:
    """What each process held when it had its turn."""

    own: dict[str, _Own] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)  # pids that had no turn yet in this round
    whole: bool = False  # every process had a turn once
    refused: int = 0  # processes whose files could not be listed
    large: int = 0  # processes with so many files that they are not listed


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Keeps what was counted, so that a node with very many open files is counted in turns."""
    known = _Known()
    yield lambda: _told(host, known)


def read(host: Host) -> Iterator[Reading | Blind]:
    return _told(host, _Known())


def _told(host: Host, known: _Known) -> Iterator[Reading | Blind]:
    at = host.now()
    limit = parse_limit(host.read(_LIMIT))
    _count(host, known)
    users: dict[str, list[_Own]] = {}
    for own in known.own.values():
        users.setdefault(own[0], []).append(own)
    for uid, theirs in users.items():
        most = ", ".join(f"{name} {many}" for _, name, many in sorted(theirs, key=lambda it: -it[2])[:SHOWN])
        source = "$ find /proc/[0-9]*/fd -lname anon_inode:inotify"
        total = sum(it[2] for it in theirs)
        yield Reading(what=USED, subject=f"user:{uid}", value=total, at=at, source=source, text=most)
    yield Reading(what=LIMIT, subject="node", value=limit, at=at, source=_LIMIT)
    if not known.whole:
        why = f"{len(known.waiting):,} processes had no turn yet; record longer"
        yield Blind(what=USED, source="/proc", why=why, subject="node")
    elif known.refused:
        why = f"permission denied: the open files of {known.refused:,} processes"
        yield Blind(what=USED, source="/proc", why=why, subject="node")
    elif known.large:
        why = f"{known.large:,} processes have room for more than {LINKS:,} open files: theirs are not listed"
        yield Blind(what=USED, source="/proc", why=why, subject="node")


def _count(host: Host, known: _Known) -> None:
    alive = {name for name in host.listing("/proc") if name.isdecimal()}
    known.own = {pid: own for pid, own in known.own.items() if pid in alive}
    if not known.waiting:
        known.waiting, known.refused, known.large = sorted(alive, key=int), 0, 0
    left = LINKS
    while known.waiting and left > 0:
        pid = known.waiting.pop(0)
        try:
            name, uid, room = parse_status(host.read(f"/proc/{pid}/status", most=65_536))
            if room > LINKS:  # a listing alone of a million files would take 100 MB
                known.large += 1
                continue
            files = host.listing(f"/proc/{pid}/fd")
        except Unreadable as error:
            known.refused += "denied" in error.why
            continue
        except Unparsable:
            continue
        left -= len(files) + 10  # status and the listing itself
        known.own.pop(pid, None)
        try:
            held = sum(_is_inotify(host, f"/proc/{pid}/fd/{it}") for it in files)
        except Unreadable:
            known.refused += 1
            continue
        if held and (user := _whose(host, pid, uid)):
            known.own[pid] = (user, f"{name}[{pid}]", held)
    known.whole = known.whole or not known.waiting


def _is_inotify(host: Host, path: str) -> bool:
    try:
        return host.link(path) in _IS_INOTIFY
    except Unreadable as error:
        if "denied" in error.why:  # so are all others of this process
            raise
        return False


def _whose(host: Host, pid: str, uid: str) -> str:
    """Its user, in another user namespace than ours with that namespace; empty if it has exited."""
    try:
        namespace, ours = host.link(f"/proc/{pid}/ns/user"), host.link("/proc/self/ns/user")
    except Unreadable:
        return ""
    return uid if namespace == ours else f"{uid} of {namespace}"


# Name:	kubelet
# Uid:	0	0	0	0
# FDSize:	256
def parse_status(text: str) -> tuple[str, str, int]:
    """The name, the effective user, and for how many open files there is room."""
    found = _STATUS.search(text)  # the kernel escapes a newline in a name
    if found is None:
        raise Unparsable("/proc/PID/status", 1, text)
    return found[1], found[2], int(found[3])


def parse_limit(text: str) -> int:
    try:
        return count(text.strip())
    except ValueError:
        raise Unparsable(_LIMIT, 1, text) from None
