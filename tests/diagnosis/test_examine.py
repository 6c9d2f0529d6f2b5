"""The rules of evidence, on members made for the purpose: each rule has a case that would break without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from tests.nodes import T0, node, read

from zombiescope.core import Blind, Finding, Ground, Plan, Reading, Span, Step, Unreadable
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import Members, examine
from zombiescope.members.rooms import Broken

LONG = node([read("seen", "node", 1, 0), read("seen", "node", 1, 1000)], unseen={"hidden": "permission denied"})
PROOF = (read("seen", "node", 1, 0),)


def member(**parts: Any) -> ModuleType:
    made = ModuleType("made")
    vars(made).update(parts)
    return made


def sign(*spans: tuple[float, float], needs: tuple[Any, ...] = ("seen",)) -> ModuleType:
    def find(timeline: Timeline) -> Iterator[Finding]:  # noqa: ARG001
        for place, (start, end) in enumerate(spans):
            span = Span(T0 + start, T0 + end)
            waits = Harm(parts=(Part(figure="waited", who=f"thing:{place}", amount=1.0, span=span),))
            yield Finding(subject=f"thing:{place}", span=span, says="seen", evidence=PROOF, harm=waits)

    return member(NEEDS=needs, find=find)


def law(*kinds: str, within: float = 60.0, joins: Callable[[Finding, Finding], bool] | None = None) -> ModuleType:
    def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:  # noqa: ARG001
        if joins is None or joins(cause, effect):
            yield from (Ground(kind=kind, says=kind, evidence=PROOF) for kind in kinds)

    return member(WITHIN=within, grounds=grounds)


def test_a_cause_that_began_later_is_no_cause() -> None:
    signs = {"leak": sign((500, 900)), "walk": sign((100, 200))}
    case = examine(LONG, signs=signs, laws={"leak_to_walk": law("mechanism")})
    assert not case.links
    assert "none of 1 began before it" in case.unexplained[0].candidates[0].why_not


def test_an_effect_long_after_the_cause_ended_is_out_of_reach() -> None:
    signs = {"leak": sign((0, 100)), "walk": sign((300, 400))}
    assert not examine(LONG, signs=signs, laws={"leak_to_walk": law("place", within=60)}).links
    assert examine(LONG, signs=signs, laws={"leak_to_walk": law("place", within=250)}).links


def test_what_was_there_when_we_began_is_never_too_late_to_be_a_cause() -> None:
    """The log tells of a reset minutes before the first look; the leak may have been there for days."""
    signs = {"leak": sign((0.5, 900)), "reset": sign((-300, -299))}
    case = examine(LONG, signs=signs, laws={"leak_to_reset": law("mechanism")})
    assert [ground.kind for ground in case.links[0].grounds] == ["mechanism"], "and order is not claimed"


def test_order_is_a_ground_only_when_it_was_seen() -> None:
    laws = {"leak_to_walk": law("mechanism")}
    kinds = {}
    for effect in (0.0, 0.5, 300.0):
        case = examine(LONG, signs={"leak": sign((0, 900)), "walk": sign((effect, 400))}, laws=laws)
        kinds[effect] = [ground.kind for ground in case.links[0].grounds]
    assert kinds == {0.0: ["mechanism"], 0.5: ["mechanism"], 300.0: ["mechanism", "order"]}


@pytest.mark.parametrize("kinds", [(), ("order",)], ids=["nothing", "order"])
def test_order_alone_is_coincidence(kinds: tuple[str, ...]) -> None:
    signs = {"leak": sign((0, 900)), "walk": sign((300, 400))}
    case = examine(LONG, signs=signs, laws={"leak_to_walk": law(*kinds)})
    assert not case.links
    assert "nothing beyond timing ties thing:0 to thing:0" in case.unexplained[0].candidates[0].why_not


def test_rivals_are_kept_and_the_strongest_leads() -> None:
    signs = {"a": sign((0, 900)), "b": sign((0, 900)), "z": sign((300, 400))}
    laws = {"a_to_z": law("place", "dose"), "b_to_z": law("mechanism")}
    case = examine(LONG, signs=signs, laws=laws)
    (effect,) = (finding for finding in case.findings if finding.sign == "z")
    assert [link.cause.sign for link in case.causes_of(effect)] == ["b", "a"]
    assert [[finding.sign for finding in chain] for chain in case.chains] == [["b", "z"]]
    assert [finding.sign for finding in case.root_causes] == ["b"]


def test_a_chain_is_walked_back_to_its_first_cause() -> None:
    signs = {"a": sign((0, 900)), "b": sign((100, 900)), "c": sign((200, 900))}
    case = examine(LONG, signs=signs, laws={"a_to_b": law("dose"), "b_to_c": law("place")})
    assert [[finding.sign for finding in chain] for chain in case.chains] == [["a", "b", "c"]]
    assert [finding.sign for finding in case.root_causes] == ["a"] and not case.unexplained


def test_an_effect_without_a_cause_says_what_could_have_been_and_why_not() -> None:
    broken = Broken("SyntaxError: no")
    signs: Members = {"clear": sign(), "unseen": sign(needs=("hidden",)), "sick": broken, "z": sign((300, 400))}
    laws = {f"{cause}_to_z": law("place") for cause in ("clear", "unseen", "sick", "absent")}
    case = examine(LONG, signs=signs, laws=laws)
    why = {candidate.law: candidate.why_not for candidate in case.unexplained[0].candidates}
    assert why["clear_to_z"] == "clear is clear"
    assert why["unseen_to_z"] == "unseen is blind: /proc/hidden: permission denied"
    assert why["sick_to_z"] == "sick is broken: SyntaxError: no"
    assert why["absent_to_z"] == "no sign absent was asked"
    assert not case.root_causes, "a lone symptom that laws could explain is a riddle, not a root cause"


def test_blind_is_never_clear() -> None:
    needs = {"seen": "clear", "hidden": "blind", "never": "blind"}
    for what, state in needs.items():
        verdict = examine(LONG, signs={"it": sign(needs=(what,))}, laws={}).verdicts[0]
        assert verdict.state == state, what
    assert examine(LONG, signs={"it": sign(needs=(("hidden", "seen"),))}, laws={}).verdicts[0].state == "clear"


def test_a_counter_seen_once_is_blind() -> None:
    once = node([read("packets_total", "node", 7, 0)])
    assert examine(once, signs={"it": sign(needs=("packets_total",))}, laws={}).verdicts[0].state == "blind"


def test_a_sign_may_be_blind_in_part() -> None:
    def find(timeline: Timeline) -> Iterator[Blind]:  # noqa: ARG001
        yield Blind(what="seen", source="/proc/x", why="half of it is missing")

    verdict = examine(LONG, signs={"it": member(NEEDS=("seen",), find=find)}, laws={}).verdicts[0]
    assert (verdict.state, verdict.says) == ("blind", "half of it is missing (/proc/x)")


def test_clear_carries_what_was_looked_at() -> None:
    assert examine(LONG, signs={"it": sign()}, laws={}).verdicts[0].evidence[0].what == "seen"


def boom(*_: object) -> Any:
    raise ZeroDivisionError("ours")


def test_one_broken_member_never_costs_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOMBIESCOPE_DEBUG", raising=False)
    signs = {"bad": member(NEEDS=("seen",), find=boom), "z": sign((300, 400)), "a": sign((0, 900))}
    laws = {
        "a_to_z": law("dose"),
        "z_to_a": member(WITHIN=0.0, grounds=boom),
        "b_to_z": member(WITHIN=9e9, grounds=boom),
    }
    remedies: Members = {"cure": member(CURES=("z",), plan=boom), "gone": Broken("ImportError")}
    case = examine(LONG, signs={**signs, "b": sign((0, 900))}, laws=laws, remedies=remedies)
    states = {verdict.sign: verdict.state for verdict in case.verdicts}
    assert states["bad"] == "broken" and states["laws/b_to_z"] == "broken" and states["z"] == "found"
    assert [link.law for link in case.links] == ["a_to_z"] and not case.plans
    assert any("ZeroDivisionError: ours (test_examine.py:" in verdict.says for verdict in case.verdicts)


def test_debug_raises_what_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOMBIESCOPE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        examine(LONG, signs={"bad": member(NEEDS=("seen",), find=boom)}, laws={})


def test_a_sign_that_cannot_read_is_blind_not_broken() -> None:
    def find(_: Timeline) -> Iterator[Finding]:
        raise Unreadable("/proc/x", "gone")

    assert examine(LONG, signs={"it": member(NEEDS=("seen",), find=find)}, laws={}).verdicts[0].state == "blind"


def test_consistency_is_counted() -> None:
    signs = {
        "core": sign((0, 10), (100, 110), (200, 210), (300, 310)),
        "reset": sign((101, 102), (205, 206), (600, 601)),
    }
    near = law("place", within=5, joins=lambda cause, effect: abs(cause.span.start - effect.span.start) < 20)
    (tally,) = examine(LONG, signs=signs, laws={"core_to_reset": near}).tallies
    assert (tally.explained, tally.effects, tally.led, tally.causes) == (2, 3, 2, 4)


def test_findings_are_bounded() -> None:
    flapping = sign(*((float(place), place + 0.5) for place in range(900)))
    case = examine(LONG, signs={"flap": flapping}, laws={})
    assert len(case.findings) == 500 and case.verdicts[0].says.startswith("900 found, the 500 worst")


def test_what_is_left_out_is_neither_the_worst_nor_near_an_event() -> None:
    """900 short periods one core after the other; one of the last cores is full for long, another before a reset."""
    short = [(float(place), place + 0.1) for place in range(900)]
    signs = {"core": sign(*short[:-2], (100.0, 400.0), (2_000.0, 2_000.1)), "reset": broke(2_005.0)}
    kept = {it.subject for it in examine(LONG, signs=signs, laws={}).findings if it.sign == "core"}
    assert len(kept) == 500 and {"thing:898", "thing:899"} <= kept


def broke(at: float) -> ModuleType:
    def find(timeline: Timeline) -> Iterator[Finding]:  # noqa: ARG001
        span = Span(T0 + at, T0 + at)
        harm = Harm(parts=(Part(figure="broken", kind="resets", who="nic:eth0", amount=1.0, span=span),))
        yield Finding(subject="nic:eth0", span=span, says="was reset", evidence=PROOF, harm=harm)

    return member(NEEDS=("seen",), find=find)


def test_a_plan_is_offered_for_what_was_found() -> None:
    def plan(finding: Finding, case: Any, timeline: Any) -> Plan:  # noqa: ARG001
        return Plan(cures=finding, steps=(Step(says="stop it", argv=("true",)),), risk="safe", proof=("z",))

    case = examine(LONG, signs={"z": sign((3, 4))}, laws={}, remedies={"stop_it": member(CURES=("z",), plan=plan)})
    assert [(offered.name, offered.cures.sign) for offered in case.plans] == [("stop_it", "z")]


def test_the_same_recording_gives_the_same_case() -> None:
    signs = {"a": sign((0, 900)), "z": sign((300, 400))}
    evidence: list[tuple[Reading, ...]] = []
    for _ in range(2):
        case = examine(LONG, signs=signs, laws={"a_to_z": law("dose")})
        evidence.append(tuple(reading for finding in case.findings for reading in finding.evidence))
    assert evidence[0] == evidence[1]
