"""A network card's driver gave up on a queue, or on the whole device, and reset it.

Why it hurts: the interface is gone for a moment and packets in flight are lost; connections that were quiet then
    fail later, and a job with a thousand of them fails at once. The driver resets because a queue got no service: its
    poll was due on a core that did not run it.
False alarms: a card that is really broken, or a host under live migration, gives the same lines. A reset that was asked
    for (ethtool --reset, a new number of queues) is counted by some drivers too. One transmit that was late, with no
    reset after it, did no harm yet; the finding says so.
References: the driver's own advice in ENA_Linux_Best_Practices.rst; net/sched/sch_generic.c, dev_watchdog().
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zombiescope.core import Blind, Finding, Reading, Span, lasting
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.episodes import episodes
from zombiescope.derived.kernel_log import INJECTED, LOG, Line, lines_of, unheard

_RESETS, _TIMEOUTS = "nic_resets_total", "nic_tx_timeouts_total"
SYMPTOM = True
ALWAYS_PROVED = "no card has reset"
DEFAULT_EVENT = True  # what `before` compares where nothing else is asked for
# Scale: events of one card: the same on any node.
NEEDS = ((LOG, _RESETS, _TIMEOUTS),)
EPISODE = 10.0  # seconds: lines this close are about one reset; the device needs a second or two for it
SHOWN = 12  # lines of one episode, as evidence: a queue's lines repeat for each packet that is stuck
_STUCK, _RESET, _STARVED, _ALIVE = "nic_tx_stuck", "nic_reset", "nic_poll_starved", "nic_keep_alive"
_HEALTH, _DUMP = "nic_health", "nic_counters"
# The first two alone show a reset; the others are added where they rose with it.
_COUNTERS = {
    _RESETS: "resets",
    _TIMEOUTS: "transmit timeouts",
    "nic_tx_watchdog_total": "the driver's own count of transmit timeouts",
    "nic_poll_starvations_total": "starved polls",
    "nic_missed_tx_total": "packets never confirmed as sent",
    "nic_allowance_exceeded_total": "packets held back or dropped by the instance's network allowance",
}
Step = tuple[Reading, Reading]


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    steps = {nic: _steps(timeline, nic) for nic in _counted_nics(timeline)}
    for nic, lines in _episodes(timeline):
        span = Span(lines[0].reading.at, lines[-1].reading.at)
        counted = [step for step in steps.get(nic, ()) if _meet(step, span)]
        steps[nic] = [step for step in steps.get(nic, ()) if step not in counted]
        yield Finding(
            subject=nic,
            span=span,
            says=_says(lines) + _injected(lines),
            evidence=(*(line.reading for line in _telling(lines)), *_ends(counted)),
            harm=_harm(nic, span, _ends(counted), logged=True) if _was_reset(lines) else _late(nic, lines),
        )
    # What the card counted and the log does not have: older kernels warn of the watchdog only once a boot.
    for nic, its in steps.items():
        for group in _groups(its):
            ends = _ends(group)
            span = Span(group[0][0].at, max(after.at for _, after in group))
            if {_RESETS, _TIMEOUTS} & {reading.what for reading in ends}:
                yield Finding(
                    subject=nic,
                    span=span,
                    says="shows in its counters: " + _said(ends) + "; the kernel's log has no line about it",
                    evidence=ends,
                    harm=_harm(nic, span, ends, logged=True),
                )
    if not timeline.looked(_RESETS, 2) and (deaf := unheard(timeline)):
        yield deaf


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """How much of the log was read, and what the cards count."""
    counters = [reading for what in (_RESETS, _TIMEOUTS) for reading in timeline.latest(what)]
    looks = [timeline.looks(what).latest for what in (LOG, _RESETS, _TIMEOUTS) if len(timeline.looks(what))]
    heard = len(timeline.series(LOG))
    return f"no reset in {heard:,} lines of the kernel's log", tuple(counters) or tuple(looks)


def _episodes(timeline: Timeline) -> Iterator[tuple[str, list[Line]]]:
    """Lines about one card that follow one another closely."""
    lines = lines_of(timeline, _STUCK, _RESET, _STARVED, _ALIVE, _HEALTH, _DUMP)
    named: dict[str, str] = {}
    by_nic: dict[str, list[Line]] = {}
    for line in lines:
        fields = line.message.fields
        # The line that ends a reset names only the device: use its last name, for a name may move to another device.
        device = fields.get("device", "")
        name = fields.get("nic") or named.get(device) or device or "unknown"
        if device:
            named[device] = name
        by_nic.setdefault(f"nic:{name}", []).append(line)
    for nic, its in by_nic.items():
        for episode in episodes(its, lambda line: line.reading.at, apart=EPISODE):
            yield nic, episode


def _was_reset(lines: list[Line]) -> bool:
    return any(line.message.kind in (_RESET, _STARVED) for line in lines)


def _harm(nic: str, span: Span, ends: tuple[Reading, ...], *, logged: bool) -> Harm:
    """How often it was reset: by its counter if that rose, else once."""
    resets = [reading.value for reading in ends if reading.what == _RESETS]
    times = max(resets[-1] - resets[0] if resets else 0.0, float(logged))
    return Harm(parts=(Part(figure="broken", kind="resets", who=nic, amount=times, span=span),) if times else ())


def _late(nic: str, lines: list[Line]) -> Harm:
    """Packets waited as long as the queue was stuck, if the driver says for how long; nothing is broken yet."""
    stuck = [(line.reading.at, float(line.message.fields.get("stuck_seconds", 0))) for line in lines]
    spans = [Span(at - seconds, at) for at, seconds in stuck if seconds]
    return Harm(parts=tuple(Part(figure="waited", who=nic, amount=1.0, span=span) for span in spans))


def _says(lines: list[Line]) -> str:
    kinds = {line.message.kind for line in lines}
    driver = next((line.message.fields["driver"] for line in lines if "driver" in line.message.fields), "")
    who = f"driver {driver}" if driver else "the driver"
    why = list(_why(lines, kinds))
    if _was_reset(lines):
        return f"was reset by {who}" + (f": {'; '.join(why)}" if why else "")
    return f"was not reset, but {who} reports: {'; '.join(why)}"


def _why(lines: list[Line], kinds: set[str]) -> Iterator[str]:
    stuck = [line.message.fields for line in lines if line.message.kind == _STUCK]
    if stuck:
        queues = sorted({it["queue"] for it in stuck if "queue" in it}, key=lambda it: (len(it), it))
        cores = sorted({it["cpu"] for it in stuck if "cpu" in it}, key=lambda it: (len(it), it))
        where = f" on queue {', '.join(queues[:SHOWN])}" if queues else ""
        where += f", polled on cpu {', '.join(cores[:SHOWN])}" if cores else ""
        yield f"transmit stalled{where}{_for_how_long(stuck)}"
    if _STARVED in kinds or any(it.get("napi_scheduled") not in (None, "0") for it in stuck):
        yield "its poll was due but did not run"
    if _ALIVE in kinds:
        yield "the device's keep-alive did not arrive"
    if _HEALTH in kinds:
        yield "the device or one of its interrupts did not answer"


def _for_how_long(stuck: list[Mapping[str, str]]) -> str:
    times = {
        words: max((float(it[name]) for it in stuck if name in it), default=0.0)
        for name, words in (("stuck_seconds", "for {}"), ("since_napi_seconds", "{} since its last poll"))
    }
    said = [words.format(lasting(seconds)) for words, seconds in times.items() if seconds]
    return f", {', '.join(said)}" if said else ""


def _telling(lines: list[Line]) -> list[Line]:
    """The lines that say most: of each kind one for each queue and one that names its core; in their order."""
    best: dict[tuple[str, ...], Line] = {}
    for line in lines:
        kind, fields = line.message.kind, line.message.fields
        # Each step of a reset has its own words; a stuck queue is reported again for each packet.
        key = (kind, line.reading.text) if kind == _RESET else (kind, fields.get("queue", ""), str("cpu" in fields))
        if key not in best or len(fields) > len(best[key].message.fields):
            best[key] = line
    return sorted(list(best.values())[:SHOWN], key=lambda line: line.reading.at)


def _injected(lines: list[Line]) -> str:
    """Lines made by the lab say so; the finding must not hide it."""
    return ", injected by the lab" if any(INJECTED in line.reading.text for line in lines) else ""


def _counted_nics(timeline: Timeline) -> list[str]:
    return sorted({nic for what in _COUNTERS for nic in timeline.subjects(what, "nic")})


def _steps(timeline: Timeline, nic: str) -> list[Step]:
    """Each rise of a counter of the card between two samples: the readings before and after."""
    steps = []
    for what in _COUNTERS:
        rate, counter = timeline.rate(what, nic), timeline.series(what, nic)
        for place in (rate.values > 0).nonzero()[0]:
            end = rate.at[place + 1] if place + 1 < len(rate) else rate.until
            between = counter.between(Span(float(rate.at[place]), float(end)))
            steps.append((between.first, between.latest))
    return sorted(steps, key=lambda step: step[0].at)


def _meet(step: Step, span: Span) -> bool:
    return step[0].at <= span.end + EPISODE and step[1].at >= span.start - EPISODE


def _groups(steps: list[Step]) -> Iterator[list[Step]]:
    """Rises that overlap, or follow one another from sample to sample, are one episode."""
    group: list[Step] = []
    for step in steps:
        if group and step[0].at > max(after.at for _, after in group):
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def _ends(steps: list[Step]) -> tuple[Reading, ...]:
    """For each counter that rose, what it was before the first rise and after the last."""
    found = []
    for what in _COUNTERS:
        its = [step for step in steps if step[0].what == what]
        found += [its[0][0], its[-1][1]] if its else []
    return tuple(found)


def _said(ends: tuple[Reading, ...]) -> str:
    pairs = zip(ends[::2], ends[1::2], strict=True)
    return "; ".join(f"{_COUNTERS[to.what]} went from {was.value:,.0f} to {to.value:,.0f}" for was, to in pairs)
