"""crash_looping_container and its law: by ends, by counts, by one more end of an old loop; ends that are well, not."""

from __future__ import annotations

import pytest
from tests.nodes import T0, node, read

from zombiescope.core import Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import crash_looping_container_to_job_failure, crash_looping_container_to_zombie_cgroups
from zombiescope.signs import crash_looping_container, job_failure, zombie_cgroups

SUBJECT = "container:default/web-1/web"
IMAGE = "container web of pod default/web-1, image registry.example/web:7 (containerd)"
SIGNS = {
    "crash_looping_container": crash_looping_container,
    "job_failure": job_failure,
    "zombie_cgroups": zombie_cgroups,
}
LAWS = {
    "crash_looping_container_to_job_failure": crash_looping_container_to_job_failure,
    "crash_looping_container_to_zombie_cgroups": crash_looping_container_to_zombie_cgroups,
}


def exits(*times: float, code: int = 5, text: str = "") -> list[Reading]:
    return [read("container_exit", SUBJECT, code, at, text or f"exit code {code} after 1.4 s") for at in times]


def counts(*values: int, every: float = 60.0) -> list[Reading]:
    words = "container web of pod default/web-1"
    return [read("container_restarts_total", SUBJECT, value, at * every, words) for at, value in enumerate(values)]


def dying(*values: int, every: float = 30.0) -> list[Reading]:
    """Memory cgroups of v2, by the kernel's own count."""
    readings = [read("cgroup_hierarchy", "controller:memory", 0, 0), read("cgroup_subsys", "controller:memory", 40, 0)]
    for at, value in enumerate(values):
        readings.append(read("cgroup_dying_subsys", "controller:memory", value, at * every))
        readings.append(read("cgroup_dying_descendants", "hierarchy:v2", value, at * every))
    return readings


def case(*readings: Reading) -> Case:
    return examine(node(readings), signs=SIGNS, laws=LAWS)


def loops(*readings: Reading) -> list[str]:
    return [it.says for it in case(*readings).findings if it.sign == "crash_looping_container"]


def test_what_made_its_pod_is_said_before_the_image() -> None:
    """A condition's message has 256 characters: the end of it may be cut."""
    subject = "container:default/web-7c5ddbdf54-x2x4z/web"
    ends = [read("container_exit", subject, 5, at, "exit code 5 after 1.4 s") for at in (5, 20, 45)]
    (says,) = loops(*ends)
    assert says.endswith("last exit code 5, of Deployment web (by its pod's name)")


def test_a_loop_is_named_with_image_and_exit_code() -> None:
    info = read("container_info", "cgroup:/kubepods/podx/1", 0, 20, IMAGE)
    found = case(*exits(5, 20, 45, 90), *counts(0, 2, 3), info)
    (loop,) = [it for it in found.findings if it.sign == "crash_looping_container"]
    assert loop.subject == SUBJECT
    assert loop.says == (
        "keeps crashing: ended 4 times in 115.0 s, 3 restarts in all, last exit code 5, image registry.example/web:7"
    )
    assert loop.span.start == T0 + 5 and loop.span.end == T0 + 120, "it waits for its next start"
    assert loop.harm is not None and dict(loop.harm.broken) == {"crashes": 4}
    assert [it.value for it in loop.evidence] == [5, 5, 5, 5, 0, 3, 0]
    assert [it.sign for it in found.root_causes] == ["crash_looping_container"]
    assert [[it.sign for it in chain] for chain in found.chains] == [["crash_looping_container", "job_failure"]]


def test_a_loop_whose_pod_was_removed_ends_with_all_that_follows_from_it() -> None:
    """The count of a pod that is gone stays in the recording."""
    pod = [read("pod_info", "pod:0a1b", value, at, "pod default/web-1") for at, value in ((0, 1), (130, 0))]
    found = case(*exits(5, 20, 45, 90), *counts(0, 2, 3, 3, 3, 3), *pod)
    (chain,) = found.chains
    assert [it.sign for it in chain] == ["crash_looping_container", "job_failure"]
    assert [it.span.end - T0 for it in chain] == [130, 120]


def test_an_end_that_is_reported_again_after_a_restart_of_the_recorder_counts_once() -> None:
    found = case(*exits(5, 20), *exits(20, 45))
    (loop,) = [it for it in found.findings if it.sign == "crash_looping_container"]
    assert "ended 3 times" in loop.says and loop.harm is not None and dict(loop.harm.broken) == {"crashes": 3}
    assert len(loop.evidence) == 3
    assert not loops(*exits(5, 20), *exits(5, 20))


def test_a_loop_that_waits_minutes_for_its_next_start() -> None:
    (says,) = loops(*exits(-200), *counts(9, 9))
    assert says == "keeps crashing: ended 4 min ago, 9 restarts in all, last exit code 5"


def test_by_the_count_alone_it_is_not_known_how_it_ended() -> None:
    found = case(*counts(4, 6, 9))
    (loop,) = [it for it in found.findings if it.sign == "crash_looping_container"]
    assert loop.says.startswith("keeps restarting: ended 5 times") and "how it ended cannot be read" in loop.says
    assert loop.harm is not None and loop.harm.unknown == ("broken",)


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        (137, "exit code 137, OOMKilled after 9.0 s", "last OOM-killed (exit code 137)"),
        (137, "exit code 137 after 9.0 s", "last exit code 137 (SIGKILL"),
        (143, "exit code 143 after 9.0 s", "last exit code 143 (SIGTERM)"),
    ],
)
def test_how_it_ended(code: int, text: str, words: str) -> None:
    (says,) = loops(*exits(1, 20, 60, code=code, text=text))
    assert words in says


def test_one_that_ends_well_accuses_nobody() -> None:
    found = case(*exits(1, 20, 60, code=0))
    (loop,) = found.findings
    assert loop.says.startswith("keeps restarting") and not found.root_causes


@pytest.mark.parametrize(
    "readings",
    [
        exits(5, 20),  # twice: a start that waited for another
        [*exits(5), *counts(1, 1)],
        [*exits(-3000, -2000, -1000), *counts(3, 3)],  # far apart: the kubelet forgets such loops too
        [*counts(9, 9, 9)],  # of another day
        [*exits(-900), *counts(9, 9)],
        [
            read("container_exit", f"container:default/job-{it}/work", 0, it, "exit code 0 after 1.0 s")
            for it in range(9)
        ],
    ],
    ids=["twice", "once", "far apart", "long ago", "over", "a job's containers that end well"],
)
def test_silent(readings: list[Reading]) -> None:
    assert not loops(*readings)


def test_a_pod_that_was_deleted_ends_the_loop() -> None:
    """Its log folder went: the probe says once that the pod is gone, and then no more of it."""
    readings = [*exits(5, 20, 45), *counts(0, 2)]
    pod = [read("pod_info", "pod:u", 1, 0, "pod default/web-1"), read("pod_info", "pod:u", 0, 60, "pod default/web-1")]
    later = [read("container_restarts_total", "container:a/b/c", 0, at) for at in (60.0, 240.0)]
    (goes_on,) = [it for it in case(*readings, *later).findings if it.sign == "crash_looping_container"]
    assert goes_on.span.end == T0 + 240
    (over,) = [it for it in case(*readings, *later, *pod).findings if it.sign == "crash_looping_container"]
    assert over.span.end == T0 + 60


def test_nothing_was_restarted() -> None:
    (verdict,) = [it for it in case(*counts(0, 0)).verdicts if it.sign == "crash_looping_container"]
    assert (verdict.state, verdict.says) == ("clear", "none of 1 containers was restarted")


def test_another_container_s_restart_is_not_this_loop_s() -> None:
    other = [read("container_restarts_total", "container:a/b/c", value, at) for at, value in ((0, 1), (60, 2))]
    found = case(*exits(5, 20, 45), *other)
    assert not found.links


def test_what_its_ends_leave_behind_is_said_and_is_its_effect() -> None:
    ends = exits(*range(5, 305, 12))
    found = case(*ends, *counts(4, 10, 14, 19, 24, 29), *dying(100, 102, 105, 107, 110, 112, 115, 117, 120, 122, 125))
    (chain,) = [it for it in found.chains if it[-1].sign == "zombie_cgroups"]
    assert [it.sign for it in chain] == ["crash_looping_container", "zombie_cgroups"]
    assert "last exit code 5, 25 more dying cgroups meanwhile" in chain[0].says
    (ground,) = [
        it for link in found.links if link.effect.sign == "zombie_cgroups" for it in link.grounds if it.kind == "dose"
    ]
    assert ground.says == "it ended 25 times, 25 more dying"


def test_a_leak_that_begins_while_somebody_looks_began_after_its_cause() -> None:
    """As every leak does for an agent that was there before it."""
    found = case(*exits(*range(125, 305, 6)), *dying(100, 101, 101, 101, 101, 106, 111, 116, 121, 126, 131))
    (chain,) = [it for it in found.chains if it[-1].sign == "zombie_cgroups"]
    assert [(it.sign, it.span.start - T0) for it in chain] == [
        ("crash_looping_container", 125),
        ("zombie_cgroups", 150),
    ]


def test_ends_of_all_containers_are_compared_with_what_is_left() -> None:
    """Two that leave one each: neither leaves two."""
    other = [read("container_exit", "container:default/db-1/db", 1, at, "exit code 1") for at in range(6, 306, 12)]
    found = case(*exits(*range(0, 300, 12)), *other, *dying(100, 110, 120, 130, 140, 150, every=60))
    grounds = {it.says for link in found.links for it in link.grounds if it.kind == "dose"}
    assert grounds == {"it ended 25 times (50 of all containers), 50 more dying"}


@pytest.mark.parametrize(
    ("ends", "counted"),
    [
        (range(5, 305, 12), (100, 100, 100, 100, 100, 100)),
        (range(5, 305, 12), (100, 200, 300, 400, 500, 600)),
        ((5, 100, 200), (1000, 1001, 1002, 1003)),
    ],
    ids=["none are left", "far more than it ended", "three by chance"],
)
def test_dying_cgroups_are_not_of_a_loop(ends: range, counted: tuple[int, ...]) -> None:
    assert not [it for it in case(*exits(*ends), *dying(*counted)).links if it.effect.sign == "zombie_cgroups"]
