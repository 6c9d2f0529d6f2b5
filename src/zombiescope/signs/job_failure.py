"""A job, or a part of it, died: a Ray node, actor, worker or job, or a container that had to be restarted.

Why it hurts: this is what people ask about. Whether the node is to blame is another question: this sign reports what
    the logs say it died of, and laws join it to what the node did at that time, or do not.
False alarms: what ends as it should (a job that succeeds, an actor that leaves) is not a failure. A program's own
    exception is one, and is reported as such: nothing in it points at the node. The cluster's head also logs Ray nodes
    elsewhere that were marked dead; this node's readings cannot explain those.
References: Ray's event logs and gcs_server.out, Ray 2.60; kubelet's /var/log/pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.owners import owners
from zombiescope.core import Blind, Finding, Reading, Span, lasting
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.half_seen import half_seen
from zombiescope.derived.ray_log import Line, lines_of, nodes_here, ray_nodes

SYMPTOM = True
# Scale: events of one job: the same on any node.
NEEDS = (("ray_event", "container_restarts_total"),)
TOGETHER = 30.0  # seconds: lines about one death, from the first failed health check to the raylet's own end
SAME = 3.0  # seconds: an actor and its worker or node die at once, and events are dated by the second
RESTARTS = 1  # a container starts again only after its main process ended
SHOWN = 8  # lines of one death, as evidence
_WORDS = {
    "heartbeats": "died with its node, which missed too many heartbeats and was marked dead",
    "crashed": "ended without a message: it was killed or it crashed",
    "memory": "was killed by Ray's memory monitor because the node ran low on memory",
    "own": "failed with its own exception; nothing in it points at the node",
    "unknown": "failed, and its logs do not say why",
}
_LOST = {
    "crashed": "ended without a message, killed or crashed",
    "memory": "killed by Ray's memory monitor because the node ran low on memory",
}


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    yield from _ray(timeline)
    yield from _containers(timeline)
    yield from half_seen(timeline, *NEEDS[0])


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """What was checked, where nothing died."""
    nodes = [node.reading for node in ray_nodes(timeline).values()]
    restarts = timeline.latest("container_restarts_total")
    looks = [looks.latest for what in NEEDS[0] if len(looks := timeline.looks(what))]
    says = f"nothing died: {len(nodes)} Ray nodes run here, {len(restarts)} containers have a restart counter"
    return says, (*nodes, *restarts, *looks)[:SHOWN]


def _ray(timeline: Timeline) -> Iterator[Finding]:
    every = lines_of(timeline)
    reasons = _reasons(every)
    failed = {one.reading.subject for one in every if "submission" in one.death.fields}
    groups: dict[tuple[str, str], list[list[Line]]] = {}
    for one in every:
        if "exception" in one.death.fields and one.reading.subject not in failed:
            continue  # the program printed an exception and went on
        lines = _because(one, reasons)
        spells = groups.setdefault((one.reading.subject, lines[-1].death.how), [[]])
        if spells[-1] and one.reading.at - spells[-1][-1].reading.at > TOGETHER:
            spells.append([])
        spells[-1] += lines
    for (subject, how), spells in groups.items():
        for spell in spells:
            if any(one.death.dead for one in spell):
                yield _finding(subject, how, spell, timeline)


def _because(one: Line, reasons: dict[str, list[Line]]) -> list[Line]:
    """A line, and the one that adds the reason: of what the node, the worker or the job died."""
    if one.death.how != "unknown":
        return [one]
    at = one.reading.at
    near = [other for other in reasons.get(one.node, []) if abs(other.reading.at - at) <= SAME]
    near += reasons.get(one.reading.subject, [])
    # A node that is marked dead ends everything on it; else take the nearest in time.
    return [one, *sorted(near, key=lambda it: (it.death.how != "heartbeats", abs(it.reading.at - at)))[:1]]


def _reasons(every: list[Line]) -> dict[str, list[Line]]:
    """The deaths whose cause is logged, by what died and by the node it died on."""
    found: dict[str, list[Line]] = {}
    for one in every:
        if one.death.dead and one.death.how != "unknown":
            for key in filter(None, (one.reading.subject, one.node)):
                found.setdefault(key, []).append(one)
    return found


def _finding(subject: str, how: str, spell: list[Line], timeline: Timeline) -> Finding:
    # Several logs report the same death: one line for each second and process is enough.
    once = {(one.death.how, one.death.dead, round(one.reading.at), one.death.fields.get("pid")): one for one in spell}
    lines = list(once.values())
    lines.sort(key=lambda one: (not one.death.dead, one.reading.at))  # deaths first: what is cut is the warnings
    times = [one.reading.at for one in spell]
    return Finding(
        subject=subject,
        span=Span(min(times), max(times)),
        says=_says(subject, how, spell, timeline) + _where(spell, timeline),
        evidence=(*(one.reading for one in lines[:SHOWN]), *_pods(spell, timeline)),
        harm=_lost(subject, Span(min(times), max(times))),
    )


def _where(spell: list[Line], timeline: Timeline) -> str:
    """The pod in which it ran, and the Ray cluster it is of, where its Ray node is a container of this machine."""
    named = dict.fromkeys(reading.text for reading in _pods(spell, timeline))
    return f" (ran in {', '.join(named)})" if named else ""


def _pods(spell: list[Line], timeline: Timeline) -> list[Reading]:
    here = ray_nodes(timeline)
    nodes = [here[one.node] for one in spell if one.node in here]
    found = [it for node in nodes if node.cgroup for it in owners(timeline, f"cgroup:{node.cgroup}")]
    return list({it.text: it for it in found if " of pod " in it.text}.values())[:2]


def _lost(subject: str, span: Span, times: float = 1.0) -> Harm:
    return Harm(parts=(Part(figure="broken", kind="jobs", who=subject, amount=times, span=span),))


def _says(subject: str, how: str, spell: list[Line], timeline: Timeline) -> str:
    kind = subject.partition(":")[0]
    fields = {name: value for one in spell for name, value in one.death.fields.items()}
    if how == "heartbeats" and kind == "raynode":
        failed = sum(not one.death.dead for one in spell)
        checks = f" after {failed} failed health checks" if failed else ""
        if spell[0].node in nodes_here(timeline):
            return f"ran here and was marked dead{checks}: it missed too many heartbeats, and what ran on it is lost"
        where = fields.get("address", "address unknown")
        return f"ran on another node ({where}) and was marked dead{checks}: it missed too many heartbeats"
    if how == "gcs":
        return f"could not reach Ray's control service (GCS) for {fields.get('seconds', 'some')} s and gave up"
    if kind == "job" and how in ("crashed", "memory"):
        pids = list(dict.fromkeys(one.death.fields["pid"] for one in spell if "pid" in one.death.fields))
        task = f" of task {fields['task']}" if "task" in fields else ""
        who = f"a worker{task}" if len(pids) < 2 else f"{len(pids)} workers"
        return f"lost {who} ({', '.join(f'pid {pid}' for pid in pids[:SHOWN])}): " + _LOST[how]
    own = [one.reading.text for one in spell if "exception" in one.death.fields]
    return _WORDS[how] + (f": {own[-1]}" if own else "")


def _containers(timeline: Timeline) -> Iterator[Finding]:
    for subject in timeline.subjects("container_restarts_total", "container"):
        counter = timeline.series("container_restarts_total", subject)
        rose = [place for place in range(1, len(counter)) if counter.values[place] > counter.values[place - 1]]
        times = sum(float(counter.values[place] - counter.values[place - 1]) for place in rose)
        if rose and times >= RESTARTS:
            # Until the last of them: the count stays, also when the pod is gone.
            span = Span(float(counter.at[rose[0]]), float(counter.at[rose[-1]]))
            yield Finding(
                subject=subject,
                span=span,
                says=(
                    f"was restarted {times:,.0f} times in {lasting(counter.span.seconds)}, "
                    f"{counter.latest.value:,.0f} times in all"
                ),
                evidence=(counter.reading(rose[0] - 1), counter.latest),
                harm=_lost(subject, span, times),
            )
