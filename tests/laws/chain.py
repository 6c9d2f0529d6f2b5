"""What tests of laws share: examine a small recording with chosen members, and see what was joined."""

from __future__ import annotations

from zombiescope.core import Case, Link
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import healthy


def judged(timeline: Timeline, law: str) -> Case:
    """The two signs that a law joins, and the law itself; nobody else has a say."""
    cause, _, effect = law.partition("_to_")
    signs = {name: it for name, it in healthy("signs").items() if name in (cause, effect)}
    case = examine(timeline, signs=signs, laws={law: healthy("laws")[law]}, questions={}, remedies={})
    assert {it.sign for it in case.findings} == {cause, effect}, [(it.sign, it.state, it.says) for it in case.verdicts]
    return case


def links(timeline: Timeline, law: str) -> list[Link]:
    return list(judged(timeline, law).links)


def kinds(link: Link) -> set[str]:
    return {ground.kind for ground in link.grounds}
