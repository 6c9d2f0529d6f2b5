"""A file system is mounted whose server or daemon does not answer: each program that touches it hangs.

Why it hurts: each process that looks at a file there sleeps until an answer comes, most of them unkillable. Exporters
    and kubelet look at every mount, so one after the other hangs, the load rises by one for each, and no core is
    busy.
False alarms: slow is not dead: requests that wait are reported only if some task has waited there for seconds, or the
    kernel itself logged that the server does not respond and not that it does again. The mount itself is never
    touched.
References: net/sunrpc/clnt.c; fs/fuse/control.c; nfs(5), hard and soft.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Finding, Reading, Span, harmless, lasting
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.blocked import SECONDS, Sleeper, covering, sleepers, unknown
from zombiescope.derived.kernel_log import LOG, Line, lines_of

_WAITING, _WAITER = "fuse_requests_waiting", "fuse_waiter_seconds"
# Scale: seconds of one task: the same on any node.
NEEDS = ((SECONDS, LOG),)
LONG = 8.0  # seconds blocked: a server across an ocean answers in one; the kernel logs after 60
NAMED = 4  # tasks named in a sentence
_NFS = ("rpc_wait_bit_killable", "nfs_wait", "nfs4_", "nfs3_", "rpc_")  # /proc/PID/wchan, a piece of the name
_FUSE = ("request_wait_answer", "fuse_", "fuse_wait")
_CIFS = ("wait_for_response", "cifs_", "smb2_", "smb_")
_KINDS = {"NFS": _NFS, "FUSE": _FUSE, "CIFS": _CIFS}


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    silent = _silent(timeline)
    for kind, functions in _KINDS.items():
        blocked = sleepers(timeline, *functions, least=LONG)
        if kind == "FUSE":
            blocked += _waiting(timeline, but={it.subject for it in blocked})
        # Only CIFS logs for how long; a FUSE daemon has no name in the log.
        servers = [it for it in silent if kind != "FUSE" and ("seconds" in it.message.fields) == (kind == "CIFS")]
        if blocked or servers:
            yield _finding(kind, blocked, servers, _unanswered(timeline) if kind == "FUSE" else [])
    yield from unknown(timeline, least=LONG)
    looks = timeline.looks(_WAITING)
    if len(looks) and looks.latest.text and "no such" not in looks.latest.text:
        yield Blind(what=_WAITING, source=looks.latest.source, why=looks.latest.text)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    known = timeline.latest("fuse_connections")
    looked = tuple(looks.latest for what in NEEDS[0] if len(looks := timeline.looks(what)))
    return "no task waits for a server or a daemon of a file system", (*known, *looked)


def _silent(timeline: Timeline) -> list[Line]:
    """Servers that the kernel logged as not responding, the last word of each."""
    last: dict[str, Line] = {}
    for line in lines_of(timeline, "mount_silent", "mount_answers"):
        last[line.message.fields["server"]] = line
    return [it for it in last.values() if it.message.kind == "mount_silent"]


def _waiting(timeline: Timeline, *, but: set[str]) -> list[Sleeper]:
    """Who sleeps until a FUSE daemon answers, in a state that does not count as blocked."""
    return [it for it in sleepers(timeline, *_FUSE, least=LONG, what=_WAITER) if it.subject not in but]


def _unanswered(timeline: Timeline) -> list[Reading]:
    """FUSE mounts with requests that waited in every sample."""
    series = [timeline.series(_WAITING, it) for it in timeline.subjects(_WAITING, "mount")]
    return [it.latest for it in series if len(it) and float(it.values.min()) >= 1 and it.span.seconds > 0]


def _finding(kind: str, blocked: list[Sleeper], silent: list[Line], waiting: list[Reading]) -> Finding:
    named = [harmless(it.message.fields["server"]) for it in silent]
    places = [harmless(it.subject.removeprefix("mount:")) for it in waiting]
    subject = f"mount:{named[0]}" if named else waiting[0].subject if len(waiting) == 1 else f"mount:{kind}"
    said = []
    if named:
        said.append(f"does not respond ({kind} server {', '.join(named[:NAMED])}), by the kernel's log")
    if places:
        said.append(f"has requests that its {kind} daemon does not answer ({', '.join(places[:NAMED])})")
    if blocked:
        who = ", ".join(harmless(it.subject.partition(":")[2]) for it in blocked[:NAMED])
        longest = lasting(blocked[0].span.seconds)
        many = f"{len(blocked)} task{'s' if len(blocked) != 1 else ''}"
        said.append(f"keeps {many} waiting in {harmless(blocked[0].where)} for up to {longest}: {who}")
    times = [it.reading.at for it in silent]
    span = covering(blocked) if blocked else Span(min(times), max(times))
    return Finding(
        subject=subject,
        span=span,
        says="; ".join(said),
        evidence=(*(it.reading for it in blocked[:NAMED]), *(it.reading for it in silent[:NAMED]), *waiting[:NAMED]),
        harm=Harm(parts=tuple(Part(figure="waited", who=it.subject, amount=1.0, span=it.span) for it in blocked)),
    )
