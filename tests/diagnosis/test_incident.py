"""The incident this tool grew from: told whole, and told otherwise where one of its parts is otherwise."""

from __future__ import annotations

import pytest
from tests.diagnosis.incident import CORE, agent, incident, walk
from tests.nodes import read

from zombiescope.core import Case
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.lab import pinterest

STAGES = [*pinterest.TRUTH.chain, "job_failure"]


def case(timeline: Timeline) -> Case:
    whole = examine(timeline)
    assert not [(it.sign, it.says) for it in whole.verdicts if it.state == "broken"]
    return whole


def longest(whole: Case) -> list[str]:
    return [it.sign for it in whole.chains[0]]


def test_one_chain_of_seven_stages_from_the_unit_to_the_job() -> None:
    whole = case(incident())
    chain = whole.chains[0]
    assert [it.sign for it in chain] == STAGES
    assert (chain[0].subject, chain[2].subject, chain[3].subject, chain[5].subject) == (
        "unit:ecs.service",
        "process:kubelet[812]",
        f"cpu:{CORE}",
        "nic:eth0",
    )
    assert whole.root_causes[0] == chain[0]
    for effect in chain[1:]:
        link = whole.causes_of(effect)[0]
        assert any(ground.kind != "order" for ground in link.grounds), link.law
    grounds = [ground for effect in chain[1:] for ground in whole.causes_of(effect)[0].grounds]
    for evidence in (*(it.evidence for it in chain), *(it.evidence for it in grounds)):
        assert evidence and all(it.source.startswith(("/", "$ ")) for it in evidence)


def test_consistency_is_counted_over_all_resets() -> None:
    tallies = {it.law: it for it in case(incident()).tallies}
    reset = tallies["starved_softirq_to_driver_reset"]
    assert (reset.explained, reset.effects) == (2, 2)
    drowned = tallies["cgroup_walker_to_saturated_core"]
    assert (drowned.explained, drowned.effects) == (2, 2)


def test_with_the_interrupt_on_another_core_nothing_leads_to_the_reset() -> None:
    whole = case(incident(nic=6))
    resets = [it for it in whole.findings if it.sign == "driver_reset"]
    assert len(resets) == 2 and not any(link.effect.sign == "driver_reset" for link in whole.links)
    riddle = next(it for it in whole.unexplained if it.finding in resets)
    why = {it.law: it.why_not for it in riddle.candidates}
    assert f"nothing beyond timing ties cpu:{CORE} to nic:eth0" in why["starved_softirq_to_driver_reset"]
    assert longest(whole)[-1] == "starved_softirq"


def test_without_stacks_the_chain_says_where_it_is_blind() -> None:
    whole = case(incident(without="stacks"))
    assert [it.sign for it in whole.chains[0]] == STAGES[3:]
    assert next(it for it in whole.verdicts if it.sign == "cgroup_walker").state == "blind"
    riddle = next(it for it in whole.unexplained if it.finding.sign == "saturated_core")
    why = {it.law: it.why_not for it in riddle.candidates}["cgroup_walker_to_saturated_core"]
    assert "blind" in why and "samples_total" in why


def test_an_innocent_poller_on_the_core_clears_the_dead() -> None:
    whole = case(incident(samples=walk("poller[99]", "main;read;read_zero;clear_user")))
    assert not any(link.effect.sign == "saturated_core" for link in whole.links)
    assert "zombie_cgroups" not in longest(whole)[longest(whole).index("saturated_core") :]
    core = next(it for it in whole.findings if it.sign == "saturated_core")
    assert "poller[99] in clear_user" in core.says, "who it really is stands there"


def test_of_two_suspects_both_are_named_and_the_one_that_leaks_is_first() -> None:
    whole = case(incident(extra=agent("false.service", leaks=False)))
    loops = [it.subject for it in whole.findings if it.sign == "crash_looping_unit"]
    assert sorted(loops) == ["unit:ecs.service", "unit:false.service"]
    assert whole.chains[0][0].subject == "unit:ecs.service"
    blamed = {link.cause.subject for link in whole.links if link.effect.sign == "zombie_cgroups"}
    assert "unit:false.service" not in blamed


def test_two_walkers_on_the_core_the_busier_is_followed() -> None:
    samples = [*walk("kubelet[812]", share=0.6), *walk("cadvisor[9]", share=0.3)]
    chain = case(incident(samples=samples)).chains[0]
    assert next(it.subject for it in chain if it.sign == "cgroup_walker") == "process:kubelet[812]"


@pytest.mark.parametrize(
    ("without", "last"),
    [("job", "driver_reset"), ("resets", "starved_softirq"), ("starved", "saturated_core")],
)
def test_a_chain_ends_where_the_story_does(without: str, last: str) -> None:
    assert STAGES.index(longest(case(incident(without=without)))[-1]) == STAGES.index(last)


def test_a_job_that_failed_of_its_own_exception_clears_the_node() -> None:
    text = "actor 0d09093aa817acc7ffcb357701000000 raised"
    whole = case(incident(without="job", extra=[read("ray_event", "job:x", 3, 50.0, text)]))
    assert not any(link.effect.sign == "job_failure" for link in whole.links)
