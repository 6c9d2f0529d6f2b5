"""The reporter while the API server is away, slow, refuses or comes back: never a storm, nothing lost unsaid."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.bad_server import Act, BadServer, bad_server, says
from tests.kubernetes.told import STATES, going_on
from tests.waiting import until

from zombiescope.core import UserError
from zombiescope.kubernetes import events, pausing, reporter
from zombiescope.kubernetes.access import Access
from zombiescope.kubernetes.client import Client
from zombiescope.kubernetes.conditions import conditions, unknown
from zombiescope.kubernetes.node_report import NodeReport, node_name
from zombiescope.kubernetes.reporter import BURST, WAITING, Reporter

NODE: dict[str, Any] = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": []}}
CLEAR, SICK = conditions("n1", STATES, []), conditions("n1", STATES, [going_on()])


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "LONGEST", 0.4)
    monkeypatch.setattr(reporter, "Pausing", lambda: pausing.Pausing(first=0.05, longest=0.4))
    monkeypatch.setattr(reporter, "APART", 0.1)


class Said:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, says: str, level: str = "info") -> None:
        self.lines.append(f"{level}: {says}")


def patches(server: BadServer) -> list[dict[str, dict[str, Any]]]:
    """The conditions of each patch, by type."""
    bodies = [json.loads(it.partition("\n\n")[2]) for it in server.got if it.startswith("PATCH /api/v1/nodes/")]
    return [{it["type"]: it for it in body["status"]["conditions"]} for body in bodies]


def about_events(server: BadServer) -> list[str]:
    return [it for it in server.got if "/events" in it.splitlines()[0]]


def reporting(access: Access) -> tuple[Reporter, Said]:
    said = Said()
    return Reporter(Client(access, timeout=2.0), "n1", said), said


def posted(it: Reporter, server: BadServer, *states: Any) -> None:
    """It is told these, each when the one before was posted, and ends."""
    for number, state in enumerate(states, 1):
        it.tell(state)
        until(lambda number=number: len(patches(server)) >= number)
    it.close((), 5.0)


def test_a_state_is_posted_once_and_a_change_at_once(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(200, NODE)) as (server, access):
        it, _ = reporting(access)
        for _ in range(5):
            it.tell(CLEAR)
            time.sleep(0.1)
        assert len(patches(server)) == 1 and len(server.got) == 2  # what the node says already was asked first
        it.tell(SICK)
        until(lambda: len(patches(server)) == 2)
        it.close(unknown("AgentStopped", "stopped"), 5.0)
    statuses = [told["ZombiescopeStarved"]["status"] for told in patches(server)]
    assert statuses == ["False", "True", "Unknown"]
    assert all("strategic-merge" in it for it in server.got if it.startswith("PATCH"))


def test_figures_that_change_wait_for_the_heartbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "HEARTBEAT", 1.0)
    with bad_server(tmp_path, says(200, NODE)) as (server, access):
        it, _ = reporting(access)
        until(lambda: it._beat)
        began = time.monotonic()
        for number in range(40):
            it.tell(conditions("n1", STATES, [going_on(says=f"{number} restarts")]))
            time.sleep(0.05)
        took = time.monotonic() - began
        it.close((), 5.0)
    assert 2 <= len(patches(server)) <= took / 0.8 + 1


def test_a_state_that_goes_on_keeps_its_time(tmp_path: Path) -> None:
    old = {"type": "ZombiescopeStarved", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    odd = [old, {"type": "NICPollStarved", "status": "False", "lastTransitionTime": "now\n"}, "text", None]
    with bad_server(tmp_path, says(200, NODE | {"status": {"conditions": odd}})) as (server, access):
        it, _ = reporting(access)
        posted(it, server, SICK, CLEAR)
    first, second = patches(server)[:2]
    assert first["ZombiescopeStarved"]["lastTransitionTime"] == "2026-01-02T03:04:05Z"
    assert first["NICPollStarved"]["lastTransitionTime"].startswith("20") and "\n" not in str(first)
    assert second["ZombiescopeStarved"]["lastTransitionTime"] > "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (says(429, {"message": "slow down"}, "Retry-After: 0"), "HTTP 429"),
        (says(403, {"message": "nodes is forbidden", "reason": "Forbidden"}), "does the service account have its role"),
        (says(401, {"message": "Unauthorized"}), "HTTP 401"),
        (says(409, {"message": "modified", "reason": "Conflict"}), "HTTP 409"),
        (says(500, {"message": "etcd"}), "HTTP 500"),
        (says(200, b"<html>"), "not a JSON object"),
    ],
)
def test_a_refusal_is_said_once_tried_again_and_no_storm(tmp_path: Path, act: Act, words: str) -> None:
    with bad_server(tmp_path, act) as (server, access):
        it, said = reporting(access)
        began = time.monotonic()
        for _ in range(30):
            it.tell(SICK)
            it.event(events.body("n1", going_on(), time.time(), ended=False))
            time.sleep(0.1)
        server._acts = [says(200, NODE)]
        until(lambda: patches(server) and not it.trouble)
        took = time.monotonic() - began
        it.close((), 5.0)
    # Pauses of 0.05 … 0.4 s, two lanes: about ten tries each in three seconds.
    assert len(server.got) < 40 / 3 * took, len(server.got)
    refused = [line for line in said.lines if words in line]
    assert 1 <= len(refused) <= 4, said.lines
    assert any("again" in line and line.startswith("info") for line in said.lines)


def test_the_pause_that_a_server_asks_for_is_kept(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(429, {}, "Retry-After: 2"), says(200, NODE)) as (server, access):
        it, _ = reporting(access)
        it.tell(SICK)
        began = time.monotonic()
        until(lambda: patches(server))
        assert time.monotonic() - began >= 2.0
        it.close((), 5.0)


def test_nobody_there_then_there(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(200, NODE)) as (server, access):
        server.close()
        it, said = reporting(access)
        it.tell(CLEAR)
        until(lambda: it.trouble)
        it.tell(SICK)
        it.close(unknown("AgentStopped", "stopped"), 5.0)
    assert "connection refused" in said.lines[0] and len(said.lines) == 1


def test_a_missing_right_to_events_does_not_hold_up_conditions(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(200, NODE)) as (server, access):
        it, said = reporting(access)

        def act(connection: Any) -> None:
            events_asked = "/events" in server.got[-1].splitlines()[0]
            says(403, {"reason": "Forbidden"})(connection) if events_asked else says(200, NODE)(connection)

        server._acts = [act]
        it.event(events.body("n1", going_on(), time.time(), ended=False))
        it.tell(CLEAR)
        until(lambda: it.trouble)
        for wanted in (SICK, CLEAR, SICK):
            before = len(patches(server))
            it.tell(wanted)
            until(lambda before=before: len(patches(server)) > before)
        it.close((), 5.0)
    assert any("events could not be posted" in line for line in said.lines)


def test_a_flood_of_findings_becomes_few_events_and_what_is_given_up_is_counted(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(201, {"kind": "Event"})) as (server, access):
        it, _ = reporting(access)
        for number in range(500):
            it.event(events.body("n1", going_on(subject=f"unit:u{number}.service"), time.time(), ended=False))
        until(lambda: len(server.got) >= BURST)
        time.sleep(1.0)
        posted = len(server.got)
        it.close((), 5.0)
    assert posted == BURST
    assert it.lost >= 500 - WAITING - BURST and it.lost + posted == 500


def test_an_event_that_is_there_is_counted_up_and_one_that_expired_is_made_anew(tmp_path: Path) -> None:
    exists, gone = says(409, {"reason": "AlreadyExists"}), says(404, {"reason": "NotFound"})
    acts = (exists, says(200, {"count": 4}), says(200, {"count": 5}), gone, says(201, {}))
    with bad_server(tmp_path, *acts) as (server, access):
        it, _ = reporting(access)
        event = events.body("n1", going_on(), time.time(), ended=False)
        it.event(event)
        until(lambda: len(server.got) == 3)
        time.sleep(0.1)
        it.event(dict(event))
        until(lambda: len(server.got) == 5)
        it.close((), 5.0)
    bodies = [json.loads(it.partition("\n\n")[2]) for it in server.got]
    assert bodies[2]["count"] == 5 and bodies[3]["count"] == 6
    assert bodies[4]["count"] == 6 and bodies[4]["kind"] == "Event"


def test_an_event_that_is_refused_for_good_does_not_block_the_next(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(422, {"reason": "Invalid"}), says(201, {})) as (server, access):
        it, said = reporting(access)
        it.event(events.body("n1", going_on(), time.time(), ended=False))
        it.event(events.body("n1", going_on(subject="unit:b.service"), time.time(), ended=False))
        until(lambda: len(server.got) == 2)
        it.close((), 5.0)
    assert it.lost == 1 and any("not taken" in line for line in said.lines)


def test_a_clock_that_differs_is_said_once(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(200, NODE, "Date: Tue, 17 Nov 2020 00:00:00 GMT")) as (server, access):
        it, said = reporting(access)
        posted(it, server, CLEAR, SICK)
    assert len([line for line in said.lines if "clock differs" in line]) == 1


def test_the_report_follows_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Began, went on, got worse, ended: an event each, and no event for each look."""
    with bad_server(tmp_path, says(200, NODE)) as (server, access):
        monkeypatch.setattr("zombiescope.kubernetes.node_report.checked", lambda *_: (access, "n1"))
        said = Said()
        report = NodeReport(said)
        report.looked(STATES, [going_on()])  # not in use: nothing happens
        report.use(True, "", "", 600.0)
        for severity in ("warning", "warning", "warning", "critical", "critical"):
            report.looked(STATES, [going_on(severity=severity)])
            time.sleep(0.3)
        report.looked(STATES, [])
        until(lambda: len(about_events(server)) == 3)
        report.use(True, "", "", 600.0)  # as before: nothing is said
        report.close(5.0)
    methods = [it.split()[0] for it in about_events(server)]
    assert methods == ["POST", "PATCH", "POST"] and "CrashLoopingUnitEnded" in about_events(server)[2]
    assert [it["ZombiescopeStarved"]["status"] for it in patches(server)] == ["True", "False", "Unknown"]
    assert threading.active_count() < 10 and not said.lines


def test_without_a_look_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bad_server(tmp_path, says(200, NODE)) as (server, access):
        monkeypatch.setattr("zombiescope.kubernetes.node_report.checked", lambda *_: (access, "n1"))
        report = NodeReport(Said())
        report.use(True, "", "", 600.0)
        report.looked(STATES, [])
        report.tick(time.monotonic() + 300.0)
        until(lambda: patches(server))
        time.sleep(0.3)
        assert patches(server)[-1]["ZombiescopeStarved"]["status"] == "False"
        report.tick(time.monotonic() + 400.0)
        until(lambda: len(patches(server)) == 2)
        report.close(5.0)
    assert patches(server)[1]["ZombiescopeStarved"]["reason"] == "NoFreshLook"


def test_a_name_that_leads_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert node_name("ip-10-0-0-1.ec2.internal") == "ip-10-0-0-1.ec2.internal"
    monkeypatch.setenv("NODE_NAME", "from-the-pod")
    assert node_name("") == "from-the-pod"
    for name in ("../pods", "a/b", "A", "a b", "x" * 300, "a?x=1"):
        with pytest.raises(UserError, match="node-name"):
            node_name(name)
