"""zombie_cgroups: found by count, by growth, for every controller; silent about residue and a burst that drains."""

from __future__ import annotations

import pytest
from tests.nodes import T0, node, read

from zombiescope.core import Finding, Reading
from zombiescope.core.model import Case
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import zombie_cgroups


def v1(known: list[float], live: float = 240, controller: str = "memory", hierarchy: int = 4) -> list[Reading]:
    """A v1 hierarchy looked at once a second."""
    subject = f"controller:{controller}"
    readings = []
    for at, count in enumerate(known):
        readings += [
            read("cgroup_folders", subject, live, at),
            read("cgroups_known", subject, count, at, f"{controller}\t{hierarchy}\t{count}\t1"),
            read("cgroup_hierarchy", subject, hierarchy, at),
            read("cgroup_version", subject, 1, at),
        ]
    return readings


def case(timeline: Timeline) -> Case:
    return examine(timeline, signs={"zombie_cgroups": zombie_cgroups}, laws={})


def only(timeline: Timeline) -> Finding:
    found = case(timeline).findings
    assert len(found) == 1
    return found[0]


def test_the_incident_is_found_with_both_witnesses() -> None:
    found = only(
        node([*v1([68_680] * 3), read("cpus_possible", "node", 96, 0), read("uptime_seconds", "node", 36_000, 0)])
    )
    assert found.subject == "controller:memory"
    assert found.says.startswith("include 68,440 dying ones still held by the kernel, 99.7 % of all (240 live)")
    assert "6,844 an hour since boot" in found.says
    assert {reading.what: reading.value for reading in found.evidence[:2]} == {
        "cgroups_known": 68_680,
        "cgroup_folders": 240,
    }
    assert found.evidence[0].text == "memory\t4\t68680\t1"


def test_growth_is_found_before_there_are_many_and_trouble_is_foretold() -> None:
    found = only(node(v1([400 + 10 * second for second in range(11)])))
    assert "260 dying" in found.says and "100 more in 10.0 s" in found.says
    assert f"there are {zombie_cgroups.TROUBLE:,} in 116 min" in found.says  # 69,740 to go at 36,000 an hour


def test_a_leak_begins_when_they_come_without_a_pause_and_ends_when_no_more_come() -> None:
    """So that it is not older than its cause, nor goes on for as long as what it left stays in the window."""
    rising = [339.0] * 20 + [340.0] * 80 + [340.0 + it for it in range(1, 101)]
    goes_on, stopped = only(node(v1(rising))), only(node(v1([*rising, *[440.0] * 300])))
    assert [it.span.start - T0 for it in (goes_on, stopped)] == [100, 100]
    assert [it.span.end - T0 for it in (goes_on, stopped)] == [199, 259]
    assert only(node(v1(rising[99:]))).span.start == T0, "it may have been there before"


def test_memory_that_runs_out_first_is_what_is_foretold() -> None:
    scarce = [read("memory_available_bytes", "node", 1e6, 0), read("cpus_possible", "node", 96, 0)]
    assert "no memory is left in" in only(node([*v1([400 + 10 * second for second in range(11)]), *scarce])).says


def test_every_controller_is_counted_not_only_memory() -> None:
    found = only(node([*v1([250]), *v1([5_000], controller="pids", hierarchy=8)]))
    assert found.subject == "controller:pids" and "4,760 dying" in found.says
    assert "kernel memory" not in found.says  # what a memory cgroup holds is not what these hold


def test_v2_is_read_from_the_kernels_own_counters() -> None:
    counters = {"cgroup_dying_subsys": 1_500, "cgroup_subsys": 42, "cgroup_dying_descendants": 1_500}
    found = only(node([read(what, "controller:memory", value, 0) for what, value in counters.items()]))
    assert "1,500 dying" in found.says and "(42 live)" in found.says


def test_a_residue_of_a_dozen_is_clear_and_says_what_was_counted() -> None:
    verdict = case(node(v1([252, 252, 253]))).verdicts[0]
    assert verdict.state == "clear" and "memory cgroups include 13 dying" in verdict.says and verdict.evidence


@pytest.mark.parametrize(
    "known", [[840, 700, 500], [440, 470, 440, 480], [300, 310, 320]], ids=["draining", "up and down", "few"]
)
def test_silent_while_pods_come_and_go(known: list[float]) -> None:
    assert not case(node(v1(known))).findings


def test_where_folders_cannot_be_counted_it_is_blind_not_clear() -> None:
    container = node(
        [reading for reading in v1([68_680]) if reading.what != "cgroup_folders"], unseen={"cgroup_folders": "no"}
    )
    assert case(container).verdicts[0].state == "blind"


def test_one_uncounted_hierarchy_is_blind_even_when_the_others_are_well() -> None:
    hidden = [reading for reading in v1([68_680]) if reading.what != "cgroup_folders"]
    verdict = case(node([*hidden, *v1([50], live=45, controller="pids", hierarchy=8)])).verdicts[0]
    assert verdict.state == "blind" and "68,680 memory cgroups" in verdict.says


@pytest.mark.parametrize(
    ("removed", "released", "words"),
    [
        (500, 20, "; the last 480 belonged to container ecs-agent, image ecs (docker)"),
        (500, 490, "an hour since boot"),
        (5, 0, "an hour since boot"),
    ],
    ids=["one that leaks", "one that does not", "too few to tell"],
)
def test_whose_the_last_ones_are_is_told(removed: int, released: int, words: str) -> None:
    family = "family:/docker/<id>"
    events = [
        read("cgroup_removals_total", family, removed, 1),
        read("cgroup_releases_total", family, released, 1),
        read("cgroup_removals_total", "family:/other", 3, 1),
        read("container_info", f"cgroup:/docker/{'5f0c' * 16}", 0, 1, "container ecs-agent, image ecs (docker)"),
    ]
    found = only(node([*v1([68_680] * 3), *events, read("uptime_seconds", "node", 36_000, 0)]))
    assert found.says.endswith(words)
