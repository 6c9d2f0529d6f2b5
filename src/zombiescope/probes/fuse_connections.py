"""/sys/fs/fuse/connections: requests that each FUSE file system has not answered yet, and where it is mounted.

Overhead: one read for each FUSE mount, 10 µs, and of the table of mounts once a minute; at most `MOST` of them. While
    a daemon has not answered, one read for each process, 12 µs, to find who waits for it. The file systems themselves
    are never asked: that would wait for the same daemon.
Kernel: fs/fuse/control.c, Documentation/filesystems/fuse.rst; the folder's name is the minor number of the mount's
    device. Needs fusectl mounted at /sys/fs/fuse/connections, which systemd does; the files are the mounting user's
    own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.kernel.text import lines, only_count
from zombiescope.probes._asleep import Asleep
from zombiescope.probes._remembering import Look, remembering

EVERY = 6.0
WAITING, COUNT = "fuse_requests_waiting", "fuse_connections"
WAITER = "fuse_waiter_seconds"
GIVES = (WAITING, COUNT, WAITER)
# fs/fuse/dev.c waits so that a signal can be passed on to the daemon; only after one is the wait killable (state D).
_INSIDE = ("request_wait_answer",)
MOST = 200  # connections in a sample, 2 ms
RENEWED = 60.0  # seconds: a new mount is named a minute later at worst
_FOLDER, _MOUNTS = "/sys/fs/fuse/connections", "/proc/self/mountinfo"


def watch(host: Host) -> AbstractContextManager[Look]:
    """Keeps where each is mounted, and who waited in the last sample."""
    waiters = Asleep(WAITER, _INSIDE)
    return remembering(lambda: _places(host), lambda places: _told(host, places, waiters), RENEWED)


def read(host: Host) -> Iterator[Reading | Blind]:
    return _told(host, _places(host), Asleep(WAITER, _INSIDE))


def _places(host: Host) -> dict[str, str]:
    return parse_mounts(host.read(_MOUNTS))


def _told(host: Host, places: dict[str, str], waiters: Asleep) -> Iterator[Reading | Blind]:
    at, unanswered = host.now(), 0
    known = [it for it in host.listing(_FOLDER) if it.isdecimal()]
    for number in known[:MOST]:
        source = f"{_FOLDER}/{number}/waiting"
        subject = f"mount:{places.get(number, f'FUSE connection {number}')}"
        try:
            waiting = only_count(host.read(source), source)
        except Unreadable as error:
            if "denied" in error.why or "permitted" in error.why:
                yield Blind(what=WAITING, source=source, why=error.why, subject=subject)
            continue  # it is gone
        unanswered += waiting
        yield Reading(what=WAITING, subject=subject, value=waiting, at=at, source=source)
    if hidden := bool(places) and not known:
        why = f"fusectl is not mounted: mount -t fusectl none {_FOLDER}"
        yield Blind(what=WAITING, source=_FOLDER, why=why, subject="node")
    if unanswered or hidden:
        yield from (reading for _, reading in waiters.told(host, at))
    else:
        waiters.since = {}
    yield Reading(what=COUNT, subject="node", value=len(known), at=at, source=f"$ ls {_FOLDER}")


# 61 27 0:52 / /mnt/data rw,nosuid - fuse.s3fs s3fs rw,user_id=0
def parse_mounts(text: str) -> dict[str, str]:
    """Where each FUSE file system is mounted, by the minor number of its device; the first place of several."""
    found: dict[str, str] = {}
    for line in lines(text):
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if after.startswith("fuse") and not after.startswith("fusectl") and len(fields) > 4:
            found.setdefault(fields[2].partition(":")[2], fields[4])
    return found
