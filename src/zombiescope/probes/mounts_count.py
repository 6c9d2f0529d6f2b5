"""/proc/1/mountinfo: how many mounts the host has, the most common kinds, and what it costs to read the table.

Programs that follow mounts (systemd, kubelet, udisks, every `df`) read the whole table again at every change.

Overhead: one read once a minute, 2 µs for each mount: 0.2 ms on a normal node, 0.2 s for the 100,000 that
    fs.mount-max allows. The kind is read of at most `SAMPLED` lines, 8 µs each.
Kernel: show_mountinfo() in fs/proc_namespace.c, Documentation/filesystems/proc.rst 3.5. /proc/1 is the host's namespace
    and needs root; without root our own is counted. Mounts that exist only in a container's namespace are not seen.
    fs.mount-max since d29216842a85 (in v4.9).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from zombiescope.cgroups.families import family
from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.text import count, lines

EVERY = 60.0
GIVES = ("mounts", "mounts_read_cpu_seconds", "mounts_alike", "mounts_limit")
SAMPLED = 1_000  # lines whose mount point is parsed, evenly spread: 8 ms
TOP = 3  # kinds reported: one that explodes is the first
LIMIT = "/proc/sys/fs/mount-max"
_SOURCES = ("/proc/1/mountinfo", "/proc/self/mountinfo")


def read(host: Host) -> Iterator[Reading | Blind]:
    at = host.now()
    text, source, spent = _table(host)
    rows = lines(text)
    yield Reading(what=GIVES[0], subject="node", value=len(rows), at=at, source=f"$ wc -l {source}")
    yield Reading(what=GIVES[1], subject="node", value=spent, at=at, source=f"$ time cat {source}")
    step = len(rows) // SAMPLED + 1
    for kind, times in Counter(parse(rows[::step], source)).most_common(TOP):
        estimate = min(times * step, len(rows))
        yield Reading(what=GIVES[2], subject=f"family:{kind}", value=estimate, at=at, source=source)
    try:
        yield Reading(what=GIVES[3], subject="node", value=_limit(host.read(LIMIT)), at=at, source=LIMIT)
    except Unreadable as error:
        yield Blind(what=GIVES[3], source=LIMIT, why=error.why)


def _table(host: Host) -> tuple[str, str, float]:
    """The table, where it was read, and the CPU time that took."""
    for source in _SOURCES:
        started = time.thread_time()
        try:
            return host.read(source), source, time.thread_time() - started
        except Unreadable as error:
            missed = error
    raise missed


# 2214 1093 0:511 / /var/lib/kubelet/pods/0c5f…/volumes/kubernetes.io~projected/token rw - tmpfs tmpfs rw,size=64k
def parse(rows: list[str], source: str = _SOURCES[0]) -> Iterator[str]:
    """The kind of each mount: its file system, and its path without generated ids."""
    for number, row in enumerate(rows, 1):
        before, separator, after = row.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 6:
            raise Unparsable(source, number, row)
        yield f"{family(fields[4])} ({after.partition(' ')[0]})"


def _limit(text: str) -> int:
    try:
        return count(text.strip())
    except ValueError:
        raise Unparsable(LIMIT, 1, text) from None
