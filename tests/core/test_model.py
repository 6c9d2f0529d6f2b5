"""The shapes: no claim without evidence, nothing changes once made, and chains follow the strongest cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from typing import Any

import pytest

from zombiescope import core
from zombiescope.core.harm import Harm

PROOF = (core.Reading(what="x", subject="node", value=1, at=1, source="/proc/x"),)
SHAPES = (
    core.Answer,
    core.Blind,
    core.Candidate,
    core.Case,
    core.Check,
    core.Finding,
    core.Ground,
    Harm,
    core.Link,
    core.Plan,
    core.Reading,
    core.Step,
    core.Tally,
    core.Unexplained,
    core.Verdict,
)


def found(sign: str, start: float = 0.0) -> core.Finding:
    return core.Finding(subject="node", span=core.Span(start, start + 5), says=sign, evidence=PROOF, sign=sign)


def link(cause: core.Finding, effect: core.Finding, *kinds: str) -> core.Link:
    grounds = tuple(core.Ground(kind=kind, says=kind, evidence=PROOF) for kind in kinds)
    return core.Link(law=f"{cause.sign}_to_{effect.sign}", cause=cause, effect=effect, grounds=grounds)


def case(
    *findings: core.Finding, links: tuple[core.Link, ...] = (), unexplained: tuple[core.Finding, ...] = ()
) -> core.Case:
    return core.Case(
        node="n",
        kernel="6.1",
        span=core.Span(0, 60),
        findings=findings,
        links=links,
        unexplained=tuple(core.Unexplained(finding=finding, candidates=()) for finding in unexplained),
    )


def test_no_claim_without_evidence() -> None:
    with pytest.raises(ValueError, match="a finding needs evidence: it hurts"):
        core.Finding(subject="node", span=core.Span(0, 1), says="it hurts", evidence=())
    with pytest.raises(ValueError, match="a ground needs evidence: so they say"):
        core.Ground(kind="place", says="so they say", evidence=())


@pytest.mark.parametrize("kind", ["", "hunch", "Order"])
def test_no_ground_of_another_kind(kind: str) -> None:
    with pytest.raises(ValueError, match="no such kind of ground"):
        core.Ground(kind=kind, says="so", evidence=PROOF)


def test_no_other_risk() -> None:
    step = core.Step(says="stop it", argv=("true",))
    assert core.Plan(cures=found("a"), steps=(step,), risk="safe", proof=("a",)).name == ""
    with pytest.raises(ValueError, match="no such risk: none"):
        core.Plan(cures=found("a"), steps=(step,), risk="none", proof=("a",))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_shape_takes_names_only(shape: Callable[[str], object]) -> None:
    with pytest.raises(TypeError, match="positional"):
        shape("x")


@pytest.mark.parametrize(
    "fact", [*PROOF, found("a"), link(found("a"), found("b"), "dose"), case(), core.Span(0, 1)], ids=type
)
def test_a_fact_does_not_change(fact: Any) -> None:
    name = fields(fact)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(fact, name, getattr(fact, name))


def test_every_shape_of_the_model_is_tested_here() -> None:
    made = {shape for shape in vars(core.model).values() if isinstance(shape, type) and is_dataclass(shape)}
    assert made == {*SHAPES, core.Span}
    assert all(vars(shape)["__dataclass_params__"].frozen for shape in made)


def test_span() -> None:
    span = core.Span(2.0, 5.0)
    assert span.seconds == 3
    assert [at for at in (1.9, 2.0, 3.0, 5.0, 5.1) if span.holds(at)] == [2.0, 3.0, 5.0]


def test_nothing_found() -> None:
    assert case().chains == [] and case().root_causes == []


def test_a_chain_from_first_cause_to_last_effect() -> None:
    a, b, c = found("a"), found("b", 1), found("c", 2)
    whole = case(c, a, b, links=(link(b, c, "place"), link(a, b, "mechanism")))
    assert whole.chains == [(a, b, c)]
    assert whole.root_causes == [a]
    assert whole.causes_of(a) == []


@pytest.mark.parametrize(
    ("strong", "weak"),
    [
        (("experiment",), ("mechanism", "dose", "place", "order")),
        (("mechanism",), ("dose", "place", "order")),
        (("dose",), ("place", "order")),
        (("place", "order"), ("place",)),
        (("mechanism", "dose"), ("mechanism", "place")),
    ],
)
def test_the_stronger_rival_leads_and_the_other_is_kept(strong: tuple[str, ...], weak: tuple[str, ...]) -> None:
    right, wrong, effect = found("right"), found("wrong"), found("effect", 3)
    links = (link(wrong, effect, *weak), link(right, effect, *strong))
    for order in (links, links[::-1]):
        whole = case(wrong, right, effect, links=order)
        assert [it.cause for it in whole.causes_of(effect)] == [right, wrong]
        assert whole.chains == [(right, effect)]
        assert whole.root_causes == [right]


def test_an_earlier_stage_is_no_rival_of_a_later_one_however_strong() -> None:
    walk, core, starved = found("walk"), found("core", 1), found("starved", 2)
    links = (link(walk, starved, "mechanism"), link(core, starved, "place"), link(walk, core, "mechanism"))
    whole = case(walk, core, starved, links=links)
    assert whole.chains == [(walk, core, starved)]
    assert [it.cause for it in whole.causes_of(starved)] == [core, walk]
    assert whole.rivals_of(starved) == [] and whole.rivals_of(walk) == []


def test_a_rival_is_one_that_did_not_lead_to_the_chosen_cause() -> None:
    walk, core, hog, starved = found("walk"), found("core", 1), found("hog"), found("starved", 2)
    links = (link(hog, starved, "place"), link(core, starved, "dose"), link(walk, core, "place"))
    whole = case(walk, core, hog, starved, links=links)
    assert [it.cause for it in whole.rivals_of(starved)] == [hog]
    assert whole.root_causes == [walk]


def test_an_answer_needs_evidence_unless_it_is_none() -> None:
    assert core.Answer(state="cannot tell", says="nothing happened").evidence == ()
    with pytest.raises(ValueError, match="needs evidence"):
        core.Answer(state="refuted", says="so")
    with pytest.raises(ValueError, match="no such answer"):
        core.Answer(state="maybe", says="so", evidence=PROOF)


def test_one_cause_of_two_effects_is_one_root_cause() -> None:
    a, b, c = found("a"), found("b", 2), found("c", 1)
    whole = case(a, b, c, links=(link(a, b, "place"), link(a, c, "place")))
    assert whole.chains == [(a, c), (a, b)]  # equally long: the earlier effect first
    assert whole.root_causes == [a]


def test_the_longest_chain_is_first() -> None:
    a, b, alone = found("a", 5), found("b", 6), found("alone")
    whole = case(alone, a, b, links=(link(a, b, "dose"),))
    assert whole.chains == [(a, b), (alone,)]
    assert whole.root_causes == [a, alone]


def riddle(finding: core.Finding, *, blind: bool) -> core.Unexplained:
    return core.Unexplained(finding=finding, candidates=(core.Candidate(law="x_to_y", why_not="so", blind=blind),))


def test_what_stands_alone_is_accused_only_if_every_cause_we_know_was_looked_for() -> None:
    lone = found("lone")
    assert replace(case(lone), unexplained=(riddle(lone, blind=False),)).root_causes == [lone]
    assert replace(case(lone), unexplained=(riddle(lone, blind=True),)).root_causes == []


def test_a_symptom_is_never_accused_alone_or_first_in_a_chain() -> None:
    core, starved = replace(found("core"), symptom=True), replace(found("starved", 1), symptom=True)
    assert case(core).root_causes == []
    whole = case(core, starved, links=(link(core, starved, "place"),))
    assert whole.chains == [(core, starved)] and whole.root_causes == []


def test_the_unexplained_first_of_a_chain_is_still_its_root_cause() -> None:
    a, b = found("a"), found("b", 1)
    assert case(a, b, links=(link(a, b, "place"),), unexplained=(a,)).root_causes == [a]


def test_causes_that_go_round_end() -> None:
    a, b, c = found("a"), found("b"), found("c", 1)
    whole = case(a, b, c, links=(link(a, b, "place"), link(b, a, "place"), link(b, c, "place")))
    assert whole.chains == [(a, b, c)]
