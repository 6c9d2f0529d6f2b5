"""Which condition a node has: by what goes on, what was clear, and what could not look."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubernetes.told import STATES, going_on

from zombiescope.kubernetes import events
from zombiescope.kubernetes.conditions import FAMILIES, STARVED, TYPES, camel_case, conditions, unknown
from zombiescope.members.rooms import names


def by_type(*found: dict[str, object], **states: str) -> dict[str, tuple[str, str]]:
    told = conditions("n1", STATES | states, found)
    assert [it.type for it in told] == list(TYPES)
    return {it.type: (it.status, it.reason) for it in told}


def test_all_clear() -> None:
    assert by_type() == dict.fromkeys(TYPES, ("False", "NothingFound"))


def test_a_root_cause_is_the_reason_and_its_chain_decides_the_families() -> None:
    chain = [
        {"sign": it, "subject": "x", "says": ""} for it in ("crash_looping_unit", "zombie_cgroups", "driver_reset")
    ]
    told = by_type(going_on(chain=chain), crash_looping_unit="found")
    assert told == {
        STARVED: ("True", "CrashLoopingUnit"),
        "NICPollStarved": ("True", "DriverReset"),
        "DyingCgroupsHarmful": ("True", "ZombieCgroups"),
        "CrashLoopingAgent": ("True", "CrashLoopingUnit"),
    }


def test_another_fault_leaves_the_families_clear() -> None:
    told = by_type(going_on("oom_kill", "cgroup:/x"))
    assert told.pop(STARVED) == ("True", "OomKill")
    assert set(told.values()) == {("False", "NothingFound")}


def test_the_worst_comes_first() -> None:
    told = conditions("n1", STATES, [going_on(), going_on("oom_kill", "cgroup:/x", severity="critical")])
    assert told[0].reason == "OomKill" and "(1 more)" in told[0].message


def test_blind_is_never_clear() -> None:
    assert by_type(zombie_cgroups="blind") == {
        STARVED: ("False", "NothingFoundPartlyBlind"),
        "NICPollStarved": ("False", "NothingFound"),
        "DyingCgroupsHarmful": ("Unknown", "Blind"),
        "CrashLoopingAgent": ("False", "NothingFound"),
    }
    blind = dict.fromkeys(STATES, "blind") | {"zombie_cgroups": "broken", "oom_kill": "clear"}
    assert {status for status, _ in by_type(**blind).values()} == {"Unknown"}
    assert {it.status for it in conditions("n1", {}, [])} == {"Unknown"}
    assert {it.status for it in unknown("NoFreshLook", "x\ny")} == {"Unknown"}


def test_what_was_found_is_bad_even_if_all_else_is_blind() -> None:
    assert by_type(going_on(), **dict.fromkeys(STATES, "blind"))[STARVED] == ("True", "CrashLoopingUnit")


def test_families_name_signs_that_exist() -> None:
    assert {sign for signs in FAMILIES.values() for sign in signs} <= set(names("signs"))
    assert camel_case("crash_looping_unit") == "CrashLoopingUnit"


@settings(max_examples=60)
@pytest.mark.parametrize("node", ["n1", "ip-10-0-0-1.us-east-1.compute.internal"])
@given(subject=st.text(), says=st.text(max_size=2000), harm=st.text(max_size=500))
def test_a_message_is_short_printable_and_ends_with_the_command(node: str, subject: str, says: str, harm: str) -> None:
    found = going_on(subject=f"unit:{subject}", says=says, harm={"says": harm})
    for it in conditions(node, STATES, [found, going_on("oom_kill")]):
        assert len(it.message) <= 256 and it.message.isprintable() and it.reason.isalnum()
        if it.status == "True" and it.type == STARVED:
            assert it.message.endswith(f"(1 more); see: kubectl zombiescope diagnose {node}")
    body = events.body(node, found, 1794873600.0, ended=False)
    assert len(body["message"]) <= 1024 and body["message"].isprintable()


def test_an_event_belongs_to_the_node_and_has_the_same_name_each_time() -> None:
    found = going_on()
    one, other = (events.body("n1", found, at, ended=False) for at in (1794873600.0, 1794873700.0))
    assert one["metadata"] == other["metadata"] == {"name": f"n1.{found['id']}", "namespace": "default"}
    assert one["involvedObject"]["uid"] == "n1" and one["type"] == "Warning"
    ended = events.body("n1", found, 1794873700.0, ended=True)
    assert (ended["reason"], ended["type"]) == ("CrashLoopingUnitEnded", "Normal")
    assert len(events.name("n" * 253, found, ended=True)) == 253
