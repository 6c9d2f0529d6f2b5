"""Run every sign over a timeline, then join what they found by every law: the whole case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from types import ModuleType

from zombiescope.core import (
    Answer,
    Blind,
    Case,
    Finding,
    Link,
    Plan,
    Reading,
    Step,
    Tally,
    Unparsable,
    Unreadable,
    Verdict,
)
from zombiescope.core.commands import can_be_shown
from zombiescope.core.own_work import is_own
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis import broken
from zombiescope.diagnosis.explain import explain
from zombiescope.diagnosis.harm import judged, settled
from zombiescope.diagnosis.join import ends, join, tally
from zombiescope.diagnosis.worst import happened, worst
from zombiescope.members.rooms import Broken, guarded, healthy, members

MOST = 500  # findings of one sign that laws weigh: those near events and the worst; on any node that is enough pairs
MADE = 10_000  # findings of one sign that are made at all, 50 for each of 192 cores: their memory is bounded
SHOWN = 8  # readings that a verdict of clear carries when the sign does not choose them itself
HIDDEN = "no command is given, because a name in it has characters that a terminal does not show as they are"
Members = Mapping[str, ModuleType | Broken]


def examine(
    timeline: Timeline,
    *,
    node: str = "",
    kernel: str = "",
    settings: tuple[str, ...] = (),
    since: float = 0.0,
    signs: Members | None = None,
    laws: Members | None = None,
    questions: Members | None = None,
    remedies: Members | None = None,
) -> Case:
    """Signs know no other sign and laws know two, so their order never matters. Rooms are looked up unless given.

    What ended before the timeline, or `since` seconds before its end if that is earlier, is past.
    """
    verdicts: list[Verdict] = []
    own: list[Finding] = []
    found: dict[str, list[Finding]] = {}
    for name, sign in (members("signs") if signs is None else signs).items():
        found[name], ours, verdict = _look(name, sign, timeline)
        own += ours
        verdicts.append(verdict)
    events = happened(found)
    found = {name: worst(its, events, MOST) for name, its in found.items()}
    links: list[Link] = []
    tallies: list[Tally] = []
    sound: dict[str, ModuleType] = {}
    known = members("laws") if laws is None else laws
    for name, law in known.items():
        causes, effects = (found.get(end, []) for end in ends(name))
        joined = law if isinstance(law, Broken) else guarded(partial(join, name, law, causes, effects, timeline))
        if isinstance(joined, Broken):
            verdicts.append(Verdict(sign=f"laws/{name}", state="broken", says=joined.why))
            continue
        sound[name] = law  # type: ignore[assignment]
        links += joined
        if causes and effects:
            tallies.append(tally(name, joined, causes, effects))
    case = Case(
        node=node,
        kernel=kernel,
        span=timeline.span,
        findings=tuple(finding for group in found.values() for finding in group),
        links=tuple(links),
        verdicts=(*verdicts, *(broken.verdicts() if signs is None else ())),
        tallies=tuple(tallies),
        answers=tuple(_answers(timeline, members("questions") if questions is None else questions)),
        settings=settings,
        own=tuple(own),
        unchecked=_unchecked(known, sound, verdicts),
    )
    case = judged(replace(case, unexplained=explain(case, known, sound, timeline)), timeline, since=since)
    return replace(case, plans=tuple(_plans(case, timeline, members("remedies") if remedies is None else remedies)))


def _look(name: str, sign: ModuleType | Broken, timeline: Timeline) -> tuple[list[Finding], list[Finding], Verdict]:
    """What one sign came to, and what of it is our own doing: blind where a need was never seen, clear only where it
    looked and found nothing."""
    if isinstance(sign, Broken):
        return [], [], Verdict(sign=name, state="broken", says=sign.why)
    missing = [need for need in sign.NEEDS if not any(_seen(timeline, what) for what in _alternatives(need))]
    if missing:
        whats = [what for need in missing for what in _alternatives(need)]
        return (
            [],
            [],
            Verdict(sign=name, state="blind", says=_why_blind(whats, timeline), evidence=_tried(whats, timeline)),
        )
    try:
        seen = guarded(lambda: list(islice(sign.find(timeline), MADE)))
        found = not isinstance(seen, Broken) and any(isinstance(it, Finding) for it in seen)
        told = ("", ()) if found else guarded(lambda: _saw(sign, timeline))  # what was found says more
    except (Unreadable, Unparsable) as error:
        return [], [], Verdict(sign=name, state="blind", says=str(error))
    if isinstance(seen, Broken) or isinstance(told, Broken):
        return [], [], Verdict(sign=name, state="broken", says=seen.why if isinstance(seen, Broken) else told.why)  # type: ignore[union-attr]
    symptom, after = bool(getattr(sign, "SYMPTOM", False)), str(getattr(sign, "NEXT", ""))
    cores = len(timeline.subjects("cpu_idle_seconds_total", "cpu"))
    stamped = (replace(it, sign=name, symptom=symptom, next_command=after) for it in seen if isinstance(it, Finding))
    every = [replace(it, harm=settled(it.harm, cores=cores)) for it in stamped]
    ours = [it for it in every if is_own(timeline, it)]
    findings = [it for it in every if it not in ours] if ours else every
    unseen = [item for item in seen if isinstance(item, Blind)]
    if findings:
        cut = f", the {MOST} worst and nearest to events are shown" if len(findings) > MOST else ""
        return (
            findings,
            ours,
            Verdict(sign=name, state="found", says=f"{len(findings)} found{cut}", evidence=findings[0].evidence),
        )
    says, evidence = told
    if unseen:
        why = "; ".join(f"{blind.why} ({blind.source})" for blind in unseen)
        return [], ours, Verdict(sign=name, state="blind", says=why, evidence=evidence)
    return [], ours, Verdict(sign=name, state="clear", says=says, evidence=evidence)


def _unchecked(laws: Members, sound: Members, verdicts: list[Verdict]) -> tuple[tuple[str, str], ...]:
    """By effect, the causes that could not be looked for, or whose law broke."""
    looked = {it.sign for it in verdicts if it.state in ("found", "clear")}
    pairs = ((name, *ends(name)) for name in laws)
    return tuple(sorted({(effect, cause) for name, cause, effect in pairs if cause not in looked or name not in sound}))


def _alternatives(need: str | tuple[str, ...]) -> tuple[str, ...]:
    """A need is one thing, or any one of several."""
    return (need,) if isinstance(need, str) else need


def _seen(timeline: Timeline, what: str) -> bool:
    """A counter tells nothing until it was seen twice."""
    return timeline.looked(what, times=2 if what.endswith("_total") else 1)


def _tried(whats: list[str], timeline: Timeline) -> tuple[Reading, ...]:
    """The last look at each thing: where somebody looked, and why it was in vain."""
    return tuple(looks.latest for what in whats if len(looks := timeline.looks(what)))


def _why_blind(whats: list[str], timeline: Timeline) -> str:
    reasons = []
    for what in whats:
        looks = timeline.looks(what)
        if not len(looks):
            reasons.append(f"nothing looked for {what}")
        elif looks.latest.value:
            reasons.append("only one sample; a rate needs two")
        else:
            reasons.append(f"{looks.latest.source}: {looks.latest.text}")
    return "; ".join(dict.fromkeys(reasons))


def _saw(sign: ModuleType, timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """In the sign's own words what it looked at, or else the latest of what it needs."""
    if hasattr(sign, "saw"):
        says, evidence = sign.saw(timeline)
        return says, evidence
    latest = (reading for need in sign.NEEDS for what in _alternatives(need) for reading in timeline.latest(what))
    return "", tuple(islice(latest, SHOWN))


def _answers(timeline: Timeline, questions: Members) -> Iterator[Answer]:
    for name, question in questions.items():
        told = question if isinstance(question, Broken) else guarded(partial(question.answer, timeline))
        if isinstance(told, Broken):
            yield Answer(question=name, state="cannot tell", says=f"broken: {told.why}")
        else:
            yield replace(told, question=name)


def _plans(case: Case, timeline: Timeline, remedies: Members) -> Iterator[Plan]:
    """What could be done about each finding, first causes first. A remedy that breaks offers nothing."""
    roots = case.root_causes
    for finding in sorted(case.findings, key=lambda finding: finding not in roots):
        for name, remedy in remedies.items():
            yield from _made(name, remedy, finding, case, timeline)


def planned(name: str, case: Case, timeline: Timeline) -> Iterator[Plan]:
    """By a remedy that a person names, for what there is, though it is no finding."""
    remedy = healthy("remedies").get(name)
    for sign in remedy.CURES if remedy is not None else ():
        what = getattr(healthy("signs").get(sign), "there_is", None)
        for finding in what(timeline) if what is not None else ():
            yield from _made(name, remedy, replace(finding, sign=sign), case, timeline)


def _made(
    name: str, remedy: ModuleType | Broken | None, finding: Finding, case: Case, timeline: Timeline
) -> Iterator[Plan]:
    if remedy is None or isinstance(remedy, Broken) or finding.sign not in remedy.CURES:
        return
    plan = guarded(partial(remedy.plan, finding, case, timeline))
    if isinstance(plan, Plan):
        after, last = (bool(getattr(remedy, flag, False)) for flag in ("AFTERMATH", "LAST_RESORT"))
        yield _agreeable(replace(plan, name=name, aftermath=after, last_resort=last))


def _agreeable(plan: Plan) -> Plan:
    """Its words alone, if a terminal would not show a command of it as it runs: nobody could agree to that."""
    if all(can_be_shown(*step.argv, *step.undo, step.unit, *step.keeps, stdin=step.stdin) for step in plan.steps):
        return plan
    return replace(plan, steps=(Step(says=HIDDEN), *(Step(says=step.says) for step in plan.steps)))
