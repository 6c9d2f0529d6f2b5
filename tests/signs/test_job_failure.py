"""job_failure and the laws that end in it: what died and of what; the node is blamed only with grounds, or cleared."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.nodes import T0, node, read
from tests.probes.test_ray_logs import HEAD, LOST, session

from zombiescope.core import Finding, Ground, Host, Reading, Span
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.diagnosis.join import in_order
from zombiescope.laws import driver_reset_to_job_failure
from zombiescope.members.rooms import healthy
from zombiescope.probes import ray_logs
from zombiescope.recorder.sampling import look
from zombiescope.recorder.tape import Tape
from zombiescope.signs import job_failure

ACTOR, OTHER_ACTOR = "actor:0d09093aa817acc7ffcb357701000000", "actor:9f7de9ec1fcb9516dcdfe08501000000"
POD = "/kubepods/burstable/pod1/ray"


def found(timeline: Timeline) -> dict[str, Finding]:
    case = examine(timeline, signs={"job_failure": job_failure}, laws={})
    assert not [verdict for verdict in case.verdicts if verdict.state == "broken"], case.verdicts
    return {f"{it.subject} {it.says}": it for it in case.findings}


def recorded(folder: Path, kind: str, *more: Reading) -> Timeline:
    session(folder, kind)
    tape = Tape()
    look(Host(str(folder), live=False), "ray_logs", healthy("probes")["ray_logs"], tape)
    for reading in more:
        tape.add(reading)
        tape.look("probe", (reading.what,), reading.at)
    return tape.timeline()


def ray_node(name: str, address: str = "10.0.0.7", cgroup: str = POD) -> Reading:
    return read("ray_node", f"raynode:{name}", 77, 0, f"{address} {cgroup}")


def test_what_really_died_is_told_with_what_it_died_of(tmp_path: Path) -> None:
    findings = found(recorded(tmp_path, "heartbeats"))
    assert set(findings) == {
        f"{ACTOR} ended without a message: it was killed or it crashed",
        f"{OTHER_ACTOR} died with its node, which missed too many heartbeats and was marked dead",
        f"raynode:{LOST} ran here and was marked dead after 3 failed health checks: it missed too many heartbeats, "
        "and what ran on it is lost",
        "job:01000000 lost 2 workers (pid 11939, pid 11984): ended without a message, killed or crashed",
    }
    node_died = next(it for it in findings.values() if it.subject == f"raynode:{LOST}")
    assert node_died.span.start == pytest.approx(1_794_784_543.711), "from the first health check that failed"
    assert "missed too many heartbeats" in node_died.evidence[0].text, "a death comes before its warnings"


def test_memory_and_own_exceptions(tmp_path: Path) -> None:
    assert set(found(recorded(tmp_path, "memory"))) == {
        "actor:dfe33ddd0f31d8407a60d65201000000 failed with its own exception; nothing in it points at the node",
        "job:01000000 lost a worker (pid 13423): ended without a message, killed or crashed",
        "job:01000000 lost a worker of task hog (pid 13300): "
        "killed by Ray's memory monitor because the node ran low on memory",
    }


def test_a_submitted_job_that_raised_is_its_own_failure(tmp_path: Path) -> None:
    (only,) = found(recorded(tmp_path, "job"))
    assert only == (
        "job:raysubmit_FgRDeWSmNR4tsxKJ failed with its own exception; nothing in it points at the node: ValueError: 42"
    )


def test_a_lost_control_service(tmp_path: Path) -> None:
    assert list(found(recorded(tmp_path, "gcs"))) == [
        "job:01000000 could not reach Ray's control service (GCS) for 6 s and gave up"
    ]


def test_a_node_elsewhere_is_told_as_such() -> None:
    text = f"The node with node id: {LOST} and address: 10.0.0.9 and node name: x has been marked dead because "
    timeline = node([read("ray_event", f"raynode:{LOST}", 4, 1, text + "the detector has missed too many heartbeats")])
    assert list(found(timeline)) == [
        f"raynode:{LOST} ran on another node (10.0.0.9) and was marked dead: it missed too many heartbeats"
    ]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [f"Health check failed for node {LOST}, remaining checks 4, status 4"],
        ["ValueError: printed by a program that went on"],
        ["Completed a ray job raysubmit_x with a status SUCCEEDED."],
    ],
    ids=["nothing", "a check that failed once", "an exception that was caught", "success"],
)
def test_silent(events: list[str]) -> None:
    readings = [read("ray_event", "job:raysubmit_x", 3, at, text) for at, text in enumerate(events)]
    case = examine(node([*readings, ray_node(HEAD)]), signs={"job_failure": job_failure})
    assert not case.findings


def test_clear_says_what_was_looked_at() -> None:
    tape = Tape()
    tape.add(ray_node(HEAD))
    tape.look("ray_logs", ray_logs.GIVES, T0 + 1)
    (verdict,) = examine(tape.timeline(), signs={"job_failure": job_failure}, laws={}).verdicts
    assert (verdict.state, verdict.says) == (
        "clear",
        "nothing died: 1 Ray nodes run here, 0 containers have a restart counter",
    )
    assert verdict.evidence[0].subject == f"raynode:{HEAD}"


def restarts(*values: int, words: str = "container web of pod default/web-1") -> list[Reading]:
    subject = "container:default/web-1/web"
    return [read("container_restarts_total", subject, value, 60.0 * at, words) for at, value in enumerate(values)]


def test_a_container_that_was_restarted() -> None:
    (only,) = found(node(restarts(4, 4, 6))).values()
    assert only.subject == "container:default/web-1/web"
    assert only.says == "was restarted 2 times in 2 min, 6 times in all"
    assert [it.value for it in only.evidence] == [4, 6]


@pytest.mark.parametrize("values", [(4, 4, 4), (7, 0, 0)], ids=["steady", "made anew"])
def test_a_container_that_was_not(values: tuple[int, ...]) -> None:
    assert not found(node(restarts(*values)))


def test_a_ray_node_in_a_pod_is_named_by_pod_and_ray_cluster(tmp_path: Path) -> None:
    words = "container ray-worker of pod ml/train-worker-1, image ray:2, Ray cluster train (group gpu) (containerd)"
    timeline = recorded(tmp_path, "heartbeats", ray_node(LOST), read("container_info", f"cgroup:{POD}", 1, 0, words))
    death = died(timeline, f"raynode:{LOST}")
    assert death.says.endswith(f" (ran in {words})") and death.evidence[-1].text == words
    bare = recorded(tmp_path / "bare", "heartbeats", ray_node(LOST))
    assert "ran in" not in died(bare, f"raynode:{LOST}").says


# Laws.


def died(timeline: Timeline, subject: str, words: str = "") -> Finding:
    return next(it for it in found(timeline).values() if it.subject == subject and words in it.says)


def cause(subject: str, at: float, *texts: str, what: str = "kernel_log") -> Finding:
    lines = [Reading(what=what, subject="node", value=3, at=at, source="/dev/kmsg", text=text) for text in texts]
    return Finding(subject=subject, span=Span(at, at + 1), says="…", evidence=tuple(lines))


RESET = cause("nic:eth0", 1_794_784_542.0, "ena 0000:00:05.0 eth0: TX q 5 is paused for too long (threshold 5)")


def test_a_reset_is_not_joined_to_a_cluster_on_loopback(tmp_path: Path) -> None:
    timeline = recorded(tmp_path, "heartbeats")
    effect = died(timeline, f"raynode:{LOST}")
    assert in_order(RESET, effect, within=driver_reset_to_job_failure.WITHIN, began=0.0)
    assert not list(driver_reset_to_job_failure.grounds(RESET, effect, timeline))


LINE = (
    "The node with node id: {} and address: {} and node name: n has been marked dead because the detector has missed "
    "too many heartbeats from it."
)
OWN = (
    "[Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS: GCS failed to check "
    "the health of this node for 5 times."
)


def given_up(name: str = LOST, address: str = "10.0.0.7") -> Reading:
    return read("ray_event", f"raynode:{name}", 3, 10, LINE.format(name, address))


CARDS = "nic_tx_timeouts_total"
ONE_CARD = [read(CARDS, "nic:eth0", 0, 0)]
TWO_CARDS = [*ONE_CARD, read(CARDS, "nic:eth1", 0, 0)]


def route(to: str, interface: str) -> Reading:
    return read("nic_route", f"route:{to}", 0, 0, interface)


@pytest.mark.parametrize(
    ("more", "joined"),
    [
        ([*TWO_CARDS, route("10.0.0.0/24", "eth0"), route("10.0.0.0/8", "eth1")], True),
        ([*TWO_CARDS, route("10.0.0.0/24", "eth1"), route("0.0.0.0/0", "eth0")], False),
        ([*TWO_CARDS, route("10.0.0.7/32", "cali1"), route("10.0.0.0/24", "eth0")], False),
        ([*TWO_CARDS, route("0.0.0.0/0", "eth0")], False),
        (TWO_CARDS, False),
    ],
    ids=["its card", "another card", "a pod behind a link of its own", "by the default route only", "no route known"],
)
def test_a_reset_is_joined_only_where_the_card_carries_the_traffic(more: list[Reading], joined: bool) -> None:
    found = reset_grounds(given_up(), ray_node(LOST), *more)
    assert bool(found) == joined
    timeline = node([given_up(), ray_node(LOST), *more])
    why = driver_reset_to_job_failure.lacks(died(timeline, f"raynode:{LOST}"), timeline)
    known = joined or more[2:3] == [route("10.0.0.0/24", "eth1")]
    assert why == ("" if known else "which card carries the traffic of 10.0.0.7 is not known")


def test_what_is_not_known_is_said_of_a_riddle() -> None:
    line = read(
        "kernel_log",
        "node",
        4,
        5.0,
        "virtio_net virtio0 eth0: NETDEV WATCHDOG: CPU: 1: transmit queue 0 timed out 5500 ms",
    )
    timeline = node([given_up(), ray_node(LOST), *TWO_CARDS, line])
    signs = {name: healthy("signs")[name] for name in ("driver_reset", "job_failure")}
    laws = {"driver_reset_to_job_failure": driver_reset_to_job_failure}
    (riddle,) = examine(timeline, signs=signs, laws=laws).unexplained
    assert riddle.candidates[0].blind and "which card carries the traffic of 10.0.0.7 is not known" in (
        riddle.candidates[0].why_not
    )


def reset_grounds(*readings: Reading, subject: str = f"raynode:{LOST}") -> list[Ground]:
    timeline = node([*readings, *ONE_CARD] if not any(it.what == CARDS for it in readings) else readings)
    return list(driver_reset_to_job_failure.grounds(RESET, died(timeline, subject), timeline))


def test_a_reset_is_joined_to_heartbeats_that_it_swallowed() -> None:
    (ground,) = reset_grounds(given_up(), ray_node(LOST))
    assert (
        ground.kind == "mechanism"
        and "it missed heartbeats on this node (10.0.0.7) just after its card eth0 was reset" in ground.says
    )
    assert [it.source for it in ground.evidence] == ["/dev/kmsg", "/proc/ray_event", f"/proc/{CARDS}"]
    assert reset_grounds(read("ray_event", f"raynode:{LOST}", 2, 10, OWN), ray_node(LOST))


def test_and_to_a_driver_that_lost_the_control_service() -> None:
    text = "[2026-11-15 23:20:55,060 E 1 2] rpc_client.h:204: Failed to connect to GCS within 60 seconds."
    (ground,) = reset_grounds(read("ray_event", "job:01000000", 3, 10, text), subject="job:01000000")
    assert "lost Ray's control service" in ground.says


CRASH = (
    "A worker died or was killed while executing a task by an unexpected system error. Lease ID: x Node ID: {} "
    "Worker IP address: 10.0.0.7 Worker port: 1 Worker PID: {} Worker exit type: SYSTEM_ERROR Worker exit detail: "
    "End of file."
)


@pytest.mark.parametrize(
    ("subject", "readings"),
    [
        (f"raynode:{LOST}", [given_up(), ray_node(HEAD)]),
        (f"raynode:{LOST}", [given_up(address="127.0.0.1"), ray_node(LOST, "127.0.0.1")]),
        ("job:01000000", [read("ray_event", "job:01000000", 3, 10, CRASH.format(LOST, 7)), ray_node(LOST)]),
        (
            "job:raysubmit_x",
            [
                read("ray_event", "job:raysubmit_x", 3, 10, "ConnectionError: no database"),
                read("ray_event", "job:raysubmit_x", 6, 11, "Completed a ray job raysubmit_x with a status FAILED."),
            ],
        ),
        ("container:default/web-1/web", restarts(0, 1)),
    ],
    ids=["another node", "over loopback", "a crash", "an exception of its own", "a container"],
)
def test_a_reset_is_not_joined_to(subject: str, readings: list[Reading]) -> None:
    assert not reset_grounds(*readings, subject=subject)
