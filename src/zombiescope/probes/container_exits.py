"""How each container of a pod last ended: exit code, OOM-killed or not, after how long; each end at its own time.

containerd keeps a status for each of them, also for those that ended; the kubelet keeps the last that ended, so in a
restart loop each end stays readable until the next. Which pod it is says the name of its log in /var/log/containers.

Overhead: a listing, and for each container that runs one stat, 6 µs; each that ended is read once, 30 µs.
Kernel: none; containerd's CRI plugin, pkg/store/container/status.go (1.3 to 2.x), and the kubelet's log names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from zombiescope.audit.running import sees_all
from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable, lasting
from zombiescope.probes._remembering import Look

EVERY = 10.0  # the kubelet waits that long before the second restart, and longer before each that follows
GIVES = ("container_exit",)
EVENTS = ALARMS = GIVES  # an end with another exit code than 0 is an alarm
# Roots of containerd as Debian and most, k3s, and microk8s have them; a node has one of them.
ROOTS = ("/var/lib/containerd", "/var/lib/rancher/k3s/agent/containerd", "/var/snap/microk8s/common/var/lib/containerd")
LOGS = "/var/log/containers"
PAST = 600.0  # seconds before the first sample that are reported too, as of Ray's logs
MOST = 2_000  # containers: ten times a full node
LARGEST = 1 << 16  # bytes of one status: it has 300
_BELOW = "io.containerd.grpc.v1.cri/containers"
_ID = re.compile(r"[0-9a-f]{64}")
# POD_NAMESPACE_CONTAINER-ID.log; none of the three may hold an underscore.
_LOG = re.compile(r"([a-z0-9.-]{1,253})_([a-z0-9-]{1,63})_([a-z0-9.-]{1,253})-([0-9a-f]{64})\.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    code: int
    at: float  # unix seconds
    ran: float  # seconds from its start; 0 if it never started
    out_of_memory: bool

    @property
    def words(self) -> str:
        return f"exit code {self.code}" + (", OOMKilled" * self.out_of_memory) + f" after {lasting(self.ran)}"


def watch(host: Host) -> AbstractContextManager[Look]:
    """Remembers what was told: an end is told once."""
    return nullcontext(_Node(host).told)


def read(host: Host) -> Iterator[Reading | Blind]:
    return _Node(host).told()


class _Node:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._since = host.now() - PAST
        self._changed: dict[str, int] = {}  # by id: when its status was last written, as it was read
        self._names: dict[str, str] = {}

    def told(self) -> Iterator[Reading | Blind]:
        folder = self._folder()
        if not folder:
            return
        names, more = self._host.first_names(folder, MOST)
        if more:
            why = f"more than {MOST:,} containers: the rest are not read"
            yield Blind(what=GIVES[0], source=folder, why=why, subject="node")
        present = [name for name in names if _ID.fullmatch(name)]
        self._changed = {name: self._changed[name] for name in present if name in self._changed}
        self._names = {name: self._names[name] for name in present if name in self._names}
        if any(name not in self._names for name in present):
            self._names |= self._logs()
        for name in present:
            path = f"{folder}/{name}/status"
            ended = self._ended(name, path)
            if ended is not None and self._since <= ended.at:
                subject = f"container:{self._names.get(name) or name}"
                at = min(ended.at, self._host.now())
                yield Reading(what=GIVES[0], subject=subject, value=ended.code, at=at, source=path, text=ended.words)

    def _folder(self) -> str:
        """Where statuses are; empty on a node without containerd."""
        for root in ROOTS:
            if self._host.status(f"{root}/{_BELOW}") is not None:
                return f"{root}/{_BELOW}"
        if not sees_all(self._host):
            raise Unreadable(f"{ROOTS[0]}/{_BELOW}", "no containerd stores anything here")
        return ""

    def _ended(self, name: str, path: str) -> Ended | None:
        """If it ended since it was last read. A status is written whole and put in the place of the last one."""
        try:
            about = self._host.status(path)
            if about is None or self._changed.get(name) == about.st_mtime_ns:
                return None
            self._changed[name] = about.st_mtime_ns
            return parse(self._host.read(path, most=LARGEST))
        except (Unreadable, Unparsable):
            return None  # just removed, or of another version

    def _logs(self) -> dict[str, str]:
        try:
            names = self._host.listing(LOGS)
        except Unreadable:
            return {}
        found = (_LOG.fullmatch(name) for name in names)
        return {it[4]: f"{it[2]}/{it[1]}/{it[3]}" for it in found if it}


# {"Version":"v1","Pid":0,"CreatedAt":…,"StartedAt":1794896498352293811,"FinishedAt":1794896499740173659,"ExitCode":5,
#  "Reason":"","Message":"",…}
def parse(text: str) -> Ended | None:
    """None while it runs."""
    try:
        known = json.loads(text)
        code, began, ended = (known[key] for key in ("ExitCode", "StartedAt", "FinishedAt"))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unparsable("status", 1, text) from None
    if not all(type(it) is int and 0 <= it < 1 << 63 for it in (code, began, ended)):
        raise Unparsable("status", 1, text)
    if not ended:
        return None
    ran = max(ended - began, 0) / 1e9 if began else 0.0
    return Ended(code=code, at=ended / 1e9, ran=ran, out_of_memory=known.get("Reason") == "OOMKilled")
