"""probes/ray_logs: what real Ray wrote when things died (tests/data/ray, Ray 2.60), and what is not taken for it."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.knowledge.ray_messages import LONGEST, recognise, stamp
from zombiescope.probes import ray_logs

DATA = Path(__file__).parent.parent / "data" / "ray"
SESSION = "tmp/ray/session_2026-11-15_23-15-34_529839_11633"
WRITTEN = {"heartbeats": 1_794_784_549.8, "memory": 1_794_784_610.9, "job": 1_794_784_698.1, "gcs": 1_794_784_855.1}
HEAD, LOST = (
    "2ac568f31fbb48314abb04fc21c308a495b623a1f16324aeeca61281",
    "a4c0f034af883efb560b70b1308b9f0bd1f38873aad9faf54f68fc3c",
)


def session(folder: Path, kind: str, *, zone: float = 0.0) -> Path:
    """A machine on which Ray has just written these logs; its clock may be of another zone than UTC."""
    logs = folder / SESSION / "logs"
    shutil.copytree(DATA / kind, logs)
    for path in logs.rglob("*"):
        if path.is_file():
            # Lines without a time are dated by the file, the others by themselves and the zone that it tells.
            os.utime(path, (0, WRITTEN[kind] + (0 if path.parent.name == "events" else zone)))
    (folder / "tmp/ray/session_latest").symlink_to(f"/{SESSION}")
    (folder / "at").write_text(str(WRITTEN[kind] + zone + 5))
    return logs


def events(folder: Path) -> list[tuple[str, str, int, float]]:
    """Who died, of what, how grave, when, in seconds since 23:15."""
    found = []
    for it in ray_logs.read(Host(str(folder), live=False)):
        if isinstance(it, Reading) and it.what == "ray_event":
            death = recognise(it.text)
            assert death is not None
            found.append((it.subject, death.how, int(it.value), round(it.at % 3600 - 900, 2)))
    return found


def test_a_node_that_stopped_answering_a_killed_actor_and_a_killed_worker(tmp_path: Path) -> None:
    session(tmp_path, "heartbeats")
    assert sorted(events(tmp_path), key=lambda event: event[3]) == [
        ("job:01000000", "crashed", 3, 40),  # kill -9 of the actor's process
        ("actor:0d09093aa817acc7ffcb357701000000", "unknown", 6, 40.5),
        ("job:01000000", "crashed", 3, 41),  # a task that killed itself
        (f"raynode:{LOST}", "heartbeats", 4, 43.71),
        (f"raynode:{LOST}", "heartbeats", 4, 45.21),
        (f"raynode:{LOST}", "heartbeats", 3, 46),
        (f"raynode:{LOST}", "heartbeats", 4, 46.71),
        (f"raynode:{LOST}", "heartbeats", 4, 46.71),
        ("actor:9f7de9ec1fcb9516dcdfe08501000000", "unknown", 6, 46.71),
        (f"raynode:{LOST}", "heartbeats", 2, 49),
    ]


def test_memory_monitor_and_an_actor_that_raised_when_it_was_made(tmp_path: Path) -> None:
    session(tmp_path, "memory")
    assert sorted(event[:3] for event in events(tmp_path)) == [
        ("actor:dfe33ddd0f31d8407a60d65201000000", "own", 6),
        ("job:01000000", "crashed", 3),
        ("job:01000000", "memory", 3),
    ]


def test_a_submitted_job_that_raised(tmp_path: Path) -> None:
    session(tmp_path, "job")
    assert [event[:3] for event in events(tmp_path)] == [
        ("job:raysubmit_FgRDeWSmNR4tsxKJ", "own", 3),
        ("job:raysubmit_FgRDeWSmNR4tsxKJ", "unknown", 6),
    ], "its supervisor, an actor that left when the job was over, did not die"


def test_a_driver_that_lost_the_control_service(tmp_path: Path) -> None:
    session(tmp_path, "gcs")
    assert [event[:2] for event in events(tmp_path)] == [("job:01000000", "gcs")]


@pytest.mark.parametrize("zone", [-8 * 3600, 5.5 * 3600, 3600])
def test_the_zone_is_told_by_the_file(zone: float, tmp_path: Path) -> None:
    """The node's clock said 23:15:46 where it was so much later or earlier in UTC."""
    session(tmp_path, "heartbeats", zone=zone)
    dead = [
        it.at
        for it in ray_logs.read(Host(str(tmp_path), live=False))
        if isinstance(it, Reading) and "gcs_node_manager.cc" in it.text
    ]
    assert dead == [pytest.approx(1_794_784_546.714 + zone, abs=0.01)]


def test_what_is_older_than_ten_minutes_is_not_told(tmp_path: Path) -> None:
    session(tmp_path, "heartbeats")
    (tmp_path / "at").write_text(str(WRITTEN["heartbeats"] + ray_logs.PAST + 60))
    assert events(tmp_path) == []


def test_watching_tells_each_line_once_and_meets_new_files(tmp_path: Path) -> None:
    logs = session(tmp_path, "heartbeats")
    for path in logs.rglob("*.*"):
        if path.is_file():
            path.write_text("")
    host = Host(str(tmp_path), live=True)
    now = time.time()
    line = {"custom_fields": {"job_id": "01000000"}, "severity": "ERROR", "timestamp": int(now)}
    message = json.loads((DATA / "heartbeats/events/event_RAYLET.log").read_text().splitlines()[0])["message"]
    with ray_logs.watch(host) as look:
        assert [it for it in look() if it.what == "ray_event"] == []
        with (logs / "events/event_RAYLET.log").open("a") as out:
            out.write(json.dumps(line | {"message": message}) + "\n")
        (seen,) = (it for it in look() if it.what == "ray_event")
        assert isinstance(seen, Reading) and seen.subject == "job:01000000" and seen.at == int(now)
        (logs / "job-driver-raysubmit_new.log").write_text("Traceback\nValueError: bad\n")
        assert [it.subject for it in look() if it.what == "ray_event"] == ["job:raysubmit_new"]
        assert [it for it in look() if it.what == "ray_event"] == []


def test_a_storm_is_cut_and_counted(tmp_path: Path) -> None:
    logs = session(tmp_path, "gcs")
    job = logs / "job-driver-raysubmit_x.log"
    with ray_logs.watch(Host(str(tmp_path), live=True)) as look:
        list(look())
        job.write_text("")
        list(look())
        job.write_text("ValueError: again\n" * 100_000)
        seen = [it for it in look() if isinstance(it, Reading)]
    assert sum(it.what == "ray_event" for it in seen) == 1, "of what a program prints only the last can have ended it"
    assert next(it.value for it in seen if it.what == "ray_log_bytes_skipped_total") > 1_000_000


def test_ray_in_a_container_is_found_by_its_process(tmp_path: Path) -> None:
    inside = tmp_path / "proc/77/root"
    logs = session(inside, "heartbeats")
    (tmp_path / "at").write_text(str(WRITTEN["heartbeats"] + 5))
    (tmp_path / "proc/77/comm").write_text("raylet\n")
    (tmp_path / "proc/77/cgroup").write_text("5:memory:/kubepods/pod1/x\n0::/other\n")
    words = ("raylet", f"--node_id={LOST}", "--node_ip_address=10.0.0.7", f"--log_dir=/{SESSION}/logs", "--x", "-D=1")
    (tmp_path / "proc/77/cmdline").write_text("\0".join(words) + "\0")
    seen = [it for it in ray_logs.read(Host(str(tmp_path), live=False)) if isinstance(it, Reading)]
    (node,) = (it for it in seen if it.what == "ray_node")
    assert (node.subject, node.value, node.text) == (f"raynode:{LOST}", 77, "10.0.0.7 /kubepods/pod1/x")
    assert sum(it.what == "ray_event" for it in seen) == 10
    assert {it.source for it in seen if it.what == "ray_event"} >= {f"/proc/77/root/{SESSION}/logs/gcs_server.out"}
    assert logs.exists()


def test_ray_in_a_pod_is_read_in_its_volume_which_outlives_it(tmp_path: Path) -> None:
    volume = "var/lib/kubelet/pods/1111/volumes/kubernetes.io~empty-dir/log-volume"
    session(tmp_path / "pod", "heartbeats")
    (tmp_path / volume).parent.mkdir(parents=True)
    (tmp_path / "pod/tmp/ray").rename(tmp_path / volume)
    (tmp_path / "var/lib/kubelet/pods/2222").mkdir()
    (tmp_path / "at").write_text(str(WRITTEN["heartbeats"] + 5))
    seen = [it for it in ray_logs.read(Host(str(tmp_path), live=False)) if it.what == "ray_event"]
    assert len(seen) == 10 and seen[0].source.startswith(f"/{volume}/session_2026")


def test_a_log_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    logs = session(tmp_path, "heartbeats")
    (logs / "gcs_server.out").rename(tmp_path / "secret")
    (logs / "gcs_server.out").symlink_to(tmp_path / "secret")
    seen = list(ray_logs.read(Host(str(tmp_path), live=False)))
    assert not [it for it in seen if isinstance(it, Reading) and "gcs_server.out" in it.source]
    assert [it.source for it in seen if isinstance(it, Blind)] == [f"/{SESSION}/logs/gcs_server.out"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[" * 100_000,
        "null",
        '{"custom_fields":[],"message":"Completed a ray job x with a status FAILED.","timestamp":1}',
        '{"custom_fields":{},"message":"Completed a ray job x with a status FAILED.","timestamp":"nan"}',
        '{"custom_fields":{},"message":"Completed a ray job x with a status FAILED.","timestamp":' + "9" * 400 + "}",
        '{"custom_fields":{},"message":{},"timestamp":null}',
    ],
)
def test_events_that_are_none(line: str, tmp_path: Path) -> None:
    logs = session(tmp_path, "gcs")
    (logs / "events").mkdir(exist_ok=True)
    (logs / "events" / "event_JOBS.log").write_text(line + "\n")
    assert [event[1] for event in events(tmp_path)] == ["gcs"]


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-15 23:15:39,361 I 1 1] (gcs_server) gcs_actor_manager.cc:1723: Actor created successfully job_id=01",
        "[2026-11-15 23:15:52,746 I 1 1] (gcs_server) gcs_job_manager.cc:156: Marking job as finished. job_id=01000000",
        "Completed a ray job raysubmit_FgRDeWSmNR4tsxKJ with a status SUCCEEDED.",
        "Started a ray job raysubmit_FgRDeWSmNR4tsxKJ.",
        "step 7: loss 0.2, Error: 0.1",
        "no heartbeat problems, RuntimeErrors: 0",
        "    raise ValueError('x')",
    ],
)
def test_ordinary_lines_tell_of_nothing(line: str) -> None:
    assert recognise(line) is None


@given(st.text(max_size=3_000))
def test_any_text_is_harmless(text: str) -> None:
    death = recognise(text)
    assert death is None or death.how
    assert stamp(text) is None or text[:1] in "[0123456789"


@pytest.mark.parametrize(
    "piece", ["ID: " + "a" * 56 + ") job ID=01000000, task name=x,", "at node " + "a" * 56 + ",", "A"]
)
def test_a_hostile_line_takes_no_time(piece: str) -> None:
    heads = ("were killed due to the node running low on memory ", "Actor is failed on worker ", "Exception ", "")
    began = time.process_time()
    for head in heads:
        assert recognise(head + piece * (LONGEST // len(piece))) is None
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("line", ["[2026-13-45 99:99:99,123 W 1 1] x", "2026-11-15 23:15", "[x"])
def test_a_stamp_that_is_none(line: str) -> None:
    assert stamp(line) is None


def test_nothing_there_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="session_latest"):
        list(ray_logs.read(Host(str(tmp_path), live=False)))
