"""Packets or connections are lost on this node: queues overflow, TCP is out of memory, a limit of the cloud is met.

Why it hurts: a lost packet costs its connection at least 200 ms, a lost SYN or DNS request 1 to 5 s, and what times
    out twice fails. Links, CPU and memory look fine: the loss is in a queue between the card and the program.
False alarms: totals since boot say nothing, so only what was lost during the recording counts, as a share of what
    came and for some time. A scan of closed ports, multicast that nobody reads and retransmissions over a bad link
    are not counted as lost here. A listener that is full and never accepts (a program that is about to exit) is real,
    and its own fault.
References: Documentation/networking/snmp_counter.rst; Documentation/networking/ip-sysctl.rst; net/core/dev.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.owners import whose
from zombiescope.core import Blind, Finding, Reading, Span, harmless, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.kernel_log import Line, lines_of
from zombiescope.knowledge.drops import Drop, drops

# Scale: shares of the traffic of one namespace or core, which grow with it; FEWEST is no chance on any node.
NEEDS = ("net_segments_received_total",)
FEWEST = 10  # lost over the recording: fewer are retried without anybody noticing
OFTEN = 0.1  # lost a second, where it is not known of how many: a burst or two in an hour is ordinary
SHARE = 0.001  # of what came: one in a thousand is where TCP's throughput begins to fall
REFUSED = 0.01  # of connections to accept, and of segments that made TCP prune: bursts are less
READ = 0.1  # of what UDP sockets lost was read from them: with less nobody waits for it
PRESSURE = 0.9  # of tcp_mem: from there on TCP prunes what it has received
SHOWN = 3  # lines of the log, as evidence
_REFUSED = "net_accepts_refused_total"


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    logged = list(lines_of(timeline, "listen_overflow", "tcp_memory"))
    # The node, then network namespaces, cores and cards: who has counters of which kind.
    for subject in dict.fromkeys(("node", *(it for drop in drops() for it in timeline.subjects(drop.counter)))):
        found = [it for drop in drops() if (it := _lost(timeline, drop, subject)) is not None]
        told = logged if subject == "node" else []
        if found or told:
            yield _finding(timeline, subject, found, told)
    looks = timeline.looks(_REFUSED)
    unseen = next((looks.reading(place) for place in sorted(looks.texts)), None)
    if unseen is not None:
        yield Blind(what=_REFUSED, source=unseen.source, why=f"losses of pods: {unseen.text}")


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    came = [timeline.series(NEEDS[0], it) for it in timeline.subjects(NEEDS[0])]
    if not came:
        return "no namespace has counters", (timeline.looks(NEEDS[0]).latest,)
    total = sum(it.latest.value - it.first.value for it in came)
    spaces = f"{len(came)} network namespace{'s' if len(came) != 1 else ''}"
    return f"nothing of note was lost; {total:,.0f} TCP segments came in {spaces}", (came[0].latest,)


_Lost = tuple[Drop, float, float, Series]  # how, how many, of how many (0: not known), the counter


def _lost(timeline: Timeline, drop: Drop, subject: str) -> _Lost | None:
    counter = timeline.series(drop.counter, subject)
    if len(counter) < 2:
        return None
    lost, came = _rise(counter), _rise(timeline.series(drop.of, subject)) if drop.of else 0.0
    if drop.counter == "net_tcp_pressures_total":
        few = 1.0
    else:
        few = FEWEST if drop.of else max(FEWEST, OFTEN * counter.span.seconds)
    share = (REFUSED if drop.bursts else SHARE) if drop.of else 0.0
    return (drop, lost, came, counter) if lost >= few and lost >= share * (lost + came) else None


def _unread(drop: Drop, lost: float, came: float) -> bool:
    """Whether the sockets are hardly read at all, as with copies of multicast: what they lose nobody misses."""
    return drop.counter == "net_udp_dropped_total" and came < READ * lost


def _rise(counter: Series) -> float:
    """How far it rose; one that fell was restarted."""
    return max(float(counter.values[-1] - counter.values[0]), 0.0) if len(counter) else 0.0


def _finding(timeline: Timeline, subject: str, found: list[_Lost], logged: list[Line]) -> Finding:
    said, evidence, spans = [], [], []
    for drop, lost, came, counter in found:
        of = f" ({percent(lost / (lost + came), 1)})" if came else ""
        said.append(f"{lost:,.0f} {drop.words}{of}" + (", as nobody reads it" if _unread(drop, lost, came) else ""))
        rises = timeline.rate(drop.counter, subject).runs(above=1e-9, lasting=0.0)
        spans += [it.span for it in rises] or [counter.span]
        evidence += [counter.first, counter.latest]
    said += _memory(timeline, evidence) if any(it[0].counter.startswith("net_tcp") for it in found) else []
    said = [f"had {'; '.join(said)}"] if said else []
    ports = list(dict.fromkeys(it.message.fields["port"] for it in logged if "port" in it.message.fields))
    said += [f"has a full accept queue in its log, of port {harmless(', '.join(ports[:SHOWN]))}"] if ports else []
    said += ["has TCP out of memory in its log"] if any(it.message.kind == "tcp_memory" for it in logged) else []
    spans += [Span(it.reading.at, it.reading.at) for it in logged]
    evidence += [it.reading for it in logged[:SHOWN]]
    span = Span(min(it.start for it in spans), max(it.end for it in spans))
    cgroup = found[0][3].latest.text if found and subject.startswith("netns:") else ""
    owner = f" (in {whose(timeline, '', f'cgroup:{cgroup}')})" if cgroup else ""
    harmful = sum(lost for drop, lost, came, _ in found if not _unread(drop, lost, came))
    parts = [Part(figure="broken", kind="drops", who=subject, amount=harmful, span=span)] if harmful else []
    return Finding(
        subject=subject,
        span=span,
        says="; ".join(said) + owner,
        evidence=tuple(evidence),
        culprit=f"cgroup:{cgroup}" if cgroup else "",
        harm=Harm(parts=tuple(parts)),
    )


def _memory(timeline: Timeline, evidence: list[Reading]) -> list[str]:
    used, limit = timeline.series("tcp_memory_pages"), timeline.series("tcp_memory_limit_pages")
    if not len(used) or not len(limit) or used.latest.value < PRESSURE * limit.latest.value:
        return []
    evidence += [used.latest, limit.latest]
    return [f"TCP uses {percent(used.latest.value / limit.latest.value)} of its memory (tcp_mem)"]
