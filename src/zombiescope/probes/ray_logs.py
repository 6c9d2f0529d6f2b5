"""Ray's logs as events: nodes declared dead, actors and workers that died, jobs that failed, each at its own time.

Overhead: 30 µs for each of a session's few files, and one listing of its log folder; 1 µs a new line. Every
    `RENEWED` seconds Ray's processes are searched for, 10 µs a process. A node without Ray pays for that only.
Kernel: none. Lines have no time zone: it follows from the time at which the file was last written.
"""

from __future__ import annotations

import fnmatch
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

from zombiescope.audit.log_tail import Place, Tail, listing
from zombiescope.audit.ray_sessions import Sessions, sessions
from zombiescope.audit.running import sees_all, silent
from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.core.host import MOST_NAMES
from zombiescope.knowledge.ray_messages import LONGEST, level, recognise, stamp
from zombiescope.probes._remembering import Look, renewing

EVERY = 6.0
GIVES = ("ray_event", "ray_node", "ray_log_bytes_skipped_total")
EVENTS = GIVES[:1]
PAST = 600.0  # seconds before the first sample that are reported too: what happened before somebody started this tool
RENEWED = 60.0  # seconds: a newly started Ray is found a minute later at worst
BYTES = 1 << 18  # of one file in one sample: Ray writes some hundred bytes a second; a burst is cut
NEWEST = 40  # of one session: its own few, and those of the latest jobs and drivers
MOST = 500  # events of one sample: a failing cluster logs the same for each of its actors
ZONE = 900.0  # seconds: every time zone is a multiple of this from UTC
# Files that report deaths. Workers' output is their own, and raylet.out says less than the event files.
_JOB, _DRIVER = "job-driver-", "python-core-driver-"  # a submitted job's own output; Ray's log of a driver
_LOGS = ("gcs_server.out", f"{_JOB}*.log", f"{_DRIVER}*.log")
_EVENTS = ("event_GCS.log", "event_RAYLET.log", "event_JOBS.log")
_SEVERITIES = {"FATAL": 2, "ERROR": 3, "WARNING": 4, "INFO": 6, "DEBUG": 7, "TRACE": 7}


def watch(host: Host) -> AbstractContextManager[Look]:
    """Remembers how far each file was read."""
    ray = _Ray(host)
    return renewing(ray.renew, ray.told, RENEWED)


def read(host: Host) -> Iterator[Reading | Blind]:
    """One sample: what was logged in the last minutes."""
    ray = _Ray(host)
    ray.renew()
    return ray.told()


class _Ray:
    """Ray on one node, and how far its logs were read."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sessions: Sessions | Unreadable = Sessions([])
        self._tails: dict[Place, Tail] = {}
        self._skipped = 0
        self._since = host.now() - PAST

    def renew(self) -> None:
        try:
            self._sessions = sessions(self._host)
        except Unreadable as error:
            self._sessions = error

    def told(self) -> Iterator[Reading | Blind]:
        for error in silent():  # a raylet of its own is not found then
            yield Blind(what=GIVES[1], source=error.source, why=error.why, subject="node")
        now = self._host.now()
        if isinstance(self._sessions, Unreadable):
            if not sees_all(self._host):
                raise self._sessions
            yield Reading(what=GIVES[2], subject="node", value=0, at=now, source="$ pgrep raylet; ls /tmp/ray")
            return
        for session in self._sessions.found:
            for node in session.nodes:
                subject, source = f"raynode:{node.id}", f"/proc/{node.pid}/cgroup"
                where = f"{node.address} {node.cgroup}"
                yield Reading(what=GIVES[1], subject=subject, value=node.pid, at=now, source=source, text=where)
        left_out = self._sessions.left_out
        unseen = [Unreadable("$ pgrep raylet; ls /tmp/ray", left_out)] if left_out else []
        places = [place for session in self._sessions.found for place in _files(session.logs, unseen)]
        self._tails = {place: self._tails.get(place) or Tail(place) for place in places}
        happened: list[Reading] = []
        for tail in self._tails.values():
            try:
                met, skipped = tail.modified > 0, tail.skipped
                happened += list(_events(tail.place, tail.new(BYTES), tail.modified, now))
                self._skipped += met * (tail.skipped - skipped)
            except Unreadable as error:
                unseen.append(error)
        yield from [event for event in happened if event.at >= self._since][-MOST:]
        source = self._sessions.found[0].logs.shown
        yield Reading(what=GIVES[2], subject="node", value=self._skipped, at=now, source=source)
        if unseen:
            yield Blind(what=GIVES[0], source=unseen[0].source, why=unseen[0].why, subject="node")


def _files(logs: Place, unseen: list[Unreadable]) -> list[Place]:
    """The files of a session that report deaths; of the many job logs, the latest. `unseen` gets what was left out."""
    found = []
    for folder, patterns in ((logs, _LOGS), (logs.inside("events"), _EVENTS)):
        try:
            names, more = listing(folder)
        except Unreadable:
            continue
        if more:
            unseen.append(Unreadable(folder.shown, f"more than {MOST_NAMES:,} names in it, of which so many are read"))
        found += [folder.inside(name) for pattern in patterns for name in fnmatch.filter(names, pattern)[-NEWEST:]]
    return found


def _events(place: Place, lines: list[str], modified: float, now: float) -> Iterator[Reading]:
    """Events from the new lines of one file."""
    if "/events/" in place.path:
        for line in lines:
            yield from _structured(place, line, now)
        return
    stamps = [stamp(line) for line in lines]
    last = next((at for at in reversed(stamps) if at is not None), modified)
    zone = round((modified - last) / ZONE) * ZONE
    printed = None  # by the program itself, without a time: only the last such line can be what ended it
    for line, at in zip(lines, stamps, strict=True):
        death = recognise(line)
        if death is None:
            continue
        if at is None and _JOB in place.path:
            printed = _reading(place, _whose(place, death.fields), 3, min(modified, now), line)
        elif at is not None:
            yield _reading(place, _whose(place, death.fields), level(line), min(at + zone, now), line)
    if printed is not None:
        yield printed


# {"custom_fields":{"job_id":"01000000","node_id":"2ac5…"},"label":"RAY_WORKER_FAILURE","message":"A worker died …",
#  "severity":"ERROR","source_type":"RAYLET","timestamp":1794784540, …}
def _structured(place: Place, line: str, now: float) -> Iterator[Reading]:
    try:
        event = json.loads(line)
        own, message, at = event["custom_fields"], str(event["message"]), float(event["timestamp"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return  # a line that is cut off or not Ray's gives no event
    death = recognise(message)
    if death is None or not isinstance(own, dict) or not math.isfinite(at):
        return
    fields = {name.removesuffix("_id"): it for name, it in own.items() if isinstance(it, str)}
    fields |= death.fields
    severity = _SEVERITIES.get(str(event.get("severity")), 3)
    yield _reading(place, _whose(place, fields), severity, min(at, now), message)


def _reading(place: Place, subject: str, severity: int, at: float, text: str) -> Reading:
    return Reading(what=GIVES[0], subject=subject, value=severity, at=at, source=place.shown, text=text[:LONGEST])


def _whose(place: Place, fields: Mapping[str, str]) -> str:
    """What died: the most specific that is named, else the one whose log it is."""
    for kind, name in (("actor", "actor"), ("job", "submission"), ("job", "job"), ("raynode", "node")):
        if fields.get(name):
            return f"{kind}:{fields[name]}"
    file = place.path.rpartition("/")[2].removesuffix(".log")
    if file.startswith(_JOB):
        return f"job:{file.removeprefix(_JOB)}"
    if file.startswith(_DRIVER):  # the job's id, then its driver's, then a pid
        return f"job:{file.removeprefix(_DRIVER)[:8]}"
    return "node"
