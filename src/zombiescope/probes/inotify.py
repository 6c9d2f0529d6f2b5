"""Inotify instances in use, by user, and how many a user may have.

Overhead: two reads for each process and one readlink for each open file, 2 µs; at most `LINKS` of them in a sample,
    in turns; a process with room for more is left out. Every `EVERY` seconds only: 500 processes with 30 files each
    take 40 ms.
Kernel: fs/notify/inotify/inotify_user.c; the limit is fs.inotify.max_user_instances, for each user and, since
    1cce1eea0aff (in v4.11), for each user namespace too. Files of other users' processes can be listed by root only;
    a process that shares its files with another (CLONE_FILES) is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.text import count
from zombiescope.probes._open_files import LINKS, Owner, Turns
from zombiescope.probes._remembering import keeping

EVERY = 60.0  # watchers are added and removed over minutes
USED, LIMIT, UNREAD = "inotify_instances", "inotify_instances_limit", "inotify_processes_unread"
GIVES = (USED, LIMIT, UNREAD)
SHOWN = 3  # processes named, those with most first
_LIMIT = "/proc/sys/fs/inotify/max_user_instances"
_IS_INOTIFY = ("anon_inode:inotify", "anon_inode:[inotify]")  # the latter in some older kernels
_Own = tuple[str, str, int]  # user, name, how many


@dataclass(slots=True)
class _Known:
    """What each process held when it had its turn."""

    turns: Turns = field(default_factory=Turns)
    own: dict[str, _Own] = field(default_factory=dict)


def _told(host: Host, known: _Known) -> Iterator[Reading | Blind]:
    at = host.now()
    limit = parse_limit(host.read(_LIMIT))
    for owner, files in known.turns.next(host):
        known.own.pop(owner.pid, None)
        held = sum(link in _IS_INOTIFY for _, link in files)
        if held and (user := _whose(host, owner)):
            known.own[owner.pid] = (user, owner.called, held)
    known.own = {pid: own for pid, own in known.own.items() if pid in known.turns.alive}
    users: dict[str, list[_Own]] = {}
    for own in known.own.values():
        users.setdefault(own[0], []).append(own)
    for uid, theirs in users.items():
        most = ", ".join(f"{name} {many}" for _, name, many in sorted(theirs, key=lambda it: -it[2])[:SHOWN])
        source = "$ find /proc/[0-9]*/fd -lname anon_inode:inotify"
        total = sum(it[2] for it in theirs)
        yield Reading(what=USED, subject=f"user:{uid}", value=total, at=at, source=source, text=most)
    yield Reading(what=LIMIT, subject="node", value=limit, at=at, source=_LIMIT)
    yield from _unseen(known.turns, at)


watch, read = keeping(_Known, _told)


def _unseen(turns: Turns, at: float) -> Iterator[Reading | Blind]:
    """A process or two that refuse hide what they hold themselves; where most refuse, nothing is known of any user."""
    names = ", ".join(turns.refused[:SHOWN])
    yield Reading(what=UNREAD, subject="node", value=len(turns.refused), at=at, source="/proc/PID/fd", text=names)
    why = ""
    if not turns.whole:
        why = f"{_processes(len(turns.waiting))} had no turn yet; record longer"
    elif len(turns.refused) > turns.listed:
        why = f"permission denied: the open files of {_processes(len(turns.refused))}"
    elif turns.large:
        room = "has" if turns.large == 1 else "have"
        why = f"{_processes(turns.large)} {room} room for more than {LINKS:,} open files, which are not listed"
    if why:
        yield Blind(what=USED, source="/proc", why=why, subject="node")


def _processes(many: int) -> str:
    return f"{many:,} process{'es' if many != 1 else ''}"


def _whose(host: Host, owner: Owner) -> str:
    """Its user, in another user namespace than ours with that namespace; empty if it has exited."""
    try:
        namespace, ours = host.link(f"/proc/{owner.pid}/ns/user"), host.link("/proc/self/ns/user")
    except Unreadable:
        return ""
    return owner.uid if namespace == ours else f"{owner.uid} of {namespace}"


def parse_limit(text: str) -> int:
    try:
        return count(text.strip())
    except ValueError:
        raise Unparsable(_LIMIT, 1, text) from None
