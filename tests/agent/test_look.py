"""One look: what becomes an event, how grave it is, and the figures, on the incident and on a quiet node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run
from tests.diagnosis.incident import RESETS, SECONDS, incident
from tests.nodes import node, read
from tests.waiting import HANGS, until

from zombiescope.agent.figures import figures
from zombiescope.agent.look import followed, look
from zombiescope.agent.metrics import BUCKETS, WAITS
from zombiescope.agent.severity import severity
from zombiescope.agent.workloads import class_of
from zombiescope.core import Reading
from zombiescope.core.harm import Harm
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.outputs.json import shape
from zombiescope.places.own_python import own_python
from zombiescope.recorder.replay import opened


def test_the_incident_is_one_event_with_its_chain() -> None:
    case = examine(incident())
    told = followed(case, shape(case))
    roots = [it for it in told if it["root"]]
    assert [(it["sign"], it["subject"], it["severity"]) for it in roots] == [
        ("crash_looping_unit", "unit:ecs.service", "critical")
    ]
    signs = [it["sign"] for it in roots[0]["chain"]]
    assert signs[0] == "crash_looping_unit" and {"zombie_cgroups", "driver_reset", "job_failure"} <= set(signs)
    assert roots[0]["harm"]["broken"]["resets"] == len(RESETS) and roots[0]["evidence"]
    inside = {(it["sign"], it["subject"]) for it in roots[0]["chain"]}
    assert not inside & {(it["sign"], it["subject"]) for it in told if not it["root"]}
    json.dumps(told, allow_nan=False)


def test_the_figures_of_the_incident() -> None:
    timeline = incident()
    start = timeline.span.start
    found = figures(timeline, examine(timeline), start)
    assert found["cgroups"] == [["memory", 240.0, 68_380.0]]
    assert found["kernel_ratio_max"] == pytest.approx(0.98) and found["saturated_seconds"] == pytest.approx(30, abs=1)
    assert [(it[0], it[1], it[3]) for it in found["resets"]] == [("eth0", "transmit_stalled", 1)] * len(RESETS)
    counts = dict(zip((*BUCKETS, float("inf")), found["softirq_delay"]["counts"], strict=True))
    assert (counts[0.005], counts[1.0], sum(counts.values())) == (90, 30, SECONDS)
    assert found["restarts"] == {"ecs.service": 120.0}


def test_what_was_counted_before_is_not_counted_again() -> None:
    timeline = incident()
    case = examine(timeline)
    whole, middle = timeline.span, timeline.span.start + SECONDS / 2
    early, late = (figures(timeline, case, since) for since in (whole.start, middle))
    assert late["saturated_seconds"] == pytest.approx(early["saturated_seconds"] / 2, rel=0.2)
    assert len(late["resets"]) == 1 and len(early["resets"]) == 2
    assert sum(late["softirq_delay"]["counts"]) == pytest.approx(SECONDS / 2, abs=2)
    none = figures(timeline, case, whole.end + 1)
    assert none["saturated_seconds"] == 0 and not none["resets"] and sum(none["softirq_delay"]["counts"]) == 0


def test_nothing_recorded_is_nothing_known() -> None:
    empty = Timeline()
    found = figures(empty, examine(empty), 0.0)
    assert not found["cgroups"] and found["softirq_delay"] is None and found["kernel_ratio_max"] is None
    assert found["throttled_seconds"] is None and not found["restarts"]


@pytest.mark.parametrize(
    ("harm", "grade"),
    [
        (Harm(broken=(("jobs", 1),)), "critical"),
        (Harm(broken=(("crashes", 900),)), "warning"),
        (Harm(broken=(("drops", 10**6),)), "warning"),
        (Harm(waited_cores=0.6), "critical"),
        (Harm(waited_cores=0.1, burnt_cores=40.0), "warning"),
        (Harm(soon_seconds=3600.0), "critical"),
        (Harm(soon_seconds=5 * 86400.0), "warning"),
        (Harm(unknown=("waited",)), "warning"),
    ],
)
def test_severity_goes_by_harm(harm: Harm, grade: str) -> None:
    assert severity(harm, accused=True) == grade
    assert severity(harm, accused=False) == "info"


class Examiner:
    """The real process, asked by hand."""

    def __init__(self, folder: Path) -> None:
        command = own_python("zombiescope.agent.examiner", str(folder), str(os.getpid()))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, window: float = 600.0) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"window": window, "since": 0.0}) + "\n")
        self.process.stdin.flush()
        return self.heard()

    def settle(self) -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write('{"do": "settle"}\n')
        self.process.stdin.flush()
        return self.heard()

    def heard(self) -> dict[str, Any]:
        assert self.process.stdout
        length, _, said = self.process.stdout.readline().partition(" ")
        assert length == "0"
        answer: dict[str, Any] = json.loads(said)
        return answer

    def close(self) -> int:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        code = self.process.wait(30)
        self.process.stdout.close()
        return code


@contextmanager
def recording(folder: Path, *more: str) -> Iterator[None]:
    """It goes on: what ended half a minute ago is stale, and a look may take as long on a loaded machine."""
    argv = own_python("zombiescope", "record", str(folder), "--hz", "0", *more)
    recorder = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        until(lambda: list(folder.glob("*/head")))
        yield
    finally:
        recorder.terminate()
        recorder.wait(HANGS)


@pytest.mark.e2e
def test_the_examiner(tmp_path: Path) -> None:
    """Answers while it can, says why it cannot, and ends with whoever asks."""
    examiner = Examiner(tmp_path / "rec")
    try:
        assert "no such folder" in examiner.ask()["error"]
        with recording(tmp_path / "rec"):
            _looks(examiner)
        (tmp_path / "rec" / "meta.json").write_text("{}")
        assert examiner.ask()["error"]
    finally:
        assert examiner.close() == 0


def _looks(examiner: Examiner) -> None:
    until(lambda: examiner.ask().get("states"))  # there is a sample
    first = examiner.ask()
    assert first["states"] and first["figures"]["cgroups"] and first["span"][1] <= time.time() + 5
    assert 0 < first["cpu_seconds"] < 10 and json.loads(first["case"])["schema"] == 1
    held = [_rss(examiner.process.pid)]
    for _ in range(3):
        assert examiner.ask()["states"]
        held.append(_rss(examiner.process.pid))
    assert held[-1] - held[0] < 2_000_000  # what a look takes goes with its copy


@pytest.mark.e2e
def test_what_is_finished_is_settled_by_the_examiner_and_the_rest_by_the_recorder(tmp_path: Path) -> None:
    """Heads of a second that are left to somebody else: when it is asked, none is left but the one being written."""
    folder = tmp_path / "rec"
    with recording(folder, "--segment", "1s", "--settle-late", "1h"):
        examiner = Examiner(folder)
        try:
            until(lambda: len(list(folder.glob("*/head"))) >= 4)  # nobody has settled them
            *finished, _ = sorted(folder.glob("*/head"))
            said = examiner.settle()
            assert said["do"] == "settle" and "error" not in said
            assert len(list(folder.glob("*/series.arrows"))) >= 3
            assert not {*finished} & {*folder.glob("*/head")}
            assert examiner.ask()["states"]
        finally:
            examiner.close()
    assert not list(folder.glob("*/head")) and opened(str(folder)).timeline().series("uptime_seconds")


@pytest.mark.e2e
def test_an_old_recording_is_not_the_present(tmp_path: Path, zombiescope: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    zombiescope("record", str(tmp_path / "rec"), "--for", "1s", "--hz", "0", expect=0)
    now = time.time()
    for later, says in ((60.0, " s ago"), (3600.0, "more than 300 s ago")):
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        said, _ = look(str(tmp_path / "rec"), window=300.0, since=0.0)
        assert says in said["stale"], said


@pytest.mark.e2e
def test_a_look_that_is_killed_costs_that_look_only(tmp_path: Path) -> None:
    with recording(tmp_path / "rec"):
        _one_is_killed(Examiner(tmp_path / "rec"))


def _one_is_killed(examiner: Examiner) -> None:
    try:
        until(lambda: examiner.ask().get("states"))
        assert examiner.process.stdin and examiner.process.stdout
        examiner.process.stdin.write('{"window": 600, "since": 0}\n')
        examiner.process.stdin.flush()
        children = Path(f"/proc/{examiner.process.pid}/task/{examiner.process.pid}/children")
        while not (found := children.read_text().split()):
            pass
        os.kill(int(found[0]), signal.SIGKILL)
        assert "killed by signal 9" in examiner.heard()["error"]
        assert examiner.ask()["states"]
    finally:
        examiner.close()


def _rss(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/kubepods/burstable/pod1/c1", "burstable"),
        ("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice", "besteffort"),
        ("/kubepods.slice/kubepods-pod0a1b.slice/cri-containerd-12.scope", "guaranteed"),
        ("/kubepods/pod12/c1", "guaranteed"),
        ("/kubepodsfake/x", "other"),
        (f"/docker/{'0a1b' * 16}", "container"),
        ("/system.slice/ecs.service", "system"),
        ("/user.slice/user-0.slice/session-1.scope", "user"),
        ("/", "other"),
    ],
)
def test_the_class_of_a_cgroup(path: str, name: str) -> None:
    assert class_of(path) == name


def test_figures_by_core_class_and_kind() -> None:
    """What was read twice is counted by what it rose; each list says what belongs to whom."""
    timed = "2.00 s; 0.5 s in all; one in 16 below 16384; from µs: 1:90"
    rows: list[Reading] = []
    for at in (0.0, 10.0, 20.0):
        rows += [
            read("cpu_idle_seconds_total", "cpu:0", at * 0.25, at),
            read("cpu_iowait_seconds_total", "cpu:0", at * 0.15, at),
            read("cpu_system_seconds_total", "cpu:0", at * 0.5, at),
            read("cpu_irq_seconds_total", "cpu:0", 0.0, at),
            read("cpu_softirq_seconds_total", "cpu:0", at * 0.1, at),
            read("cgroup_throttled_seconds_total", "cgroup:/kubepods/burstable/pod1", at * 0.3, at),
            read("cgroup_throttled_seconds_total", "cgroup:/system.slice/a.service", at * 0.1, at),
            read("cgroup_memory_stall_seconds_total", "cgroup:/kubepods/pod2", at * 0.2, at),
            read("cgroup_births_total", "family:/docker/<id>", 100.0 + at, at),
            read("cgroup_removals_total", "family:/docker/<id>", 90.0 + at, at),
            read("cgroup_releases_total", "family:/docker/<id>", 50.0, at),
            read("softirq_wait_seconds", "softirq:NET_RX/0", 0.3, at, f"{timed} 262144:2"),
            read("softirq_wait_seconds", "softirq:TIMER/0", 0.3, at, timed),
            read("cgroup_run_delay_seconds", "cgroup:/system.slice/a.service", 0.3, at, f"{timed} 262144:1"),
            read("cgroup_run_delay_seconds", "cgroups:others", 0.1, at, timed),
        ]
    # Another probe was read later, and the node is older than the last look: neither loses what was counted.
    timeline = node([*rows, read("procs_running", "node", 1.0, 0.0), read("procs_running", "node", 1.0, 21.5)])
    found = figures(timeline, examine(timeline), timeline.span.start)
    assert found["cores_idle"] == pytest.approx(0.4) and found["kernel_ratio_max"] == pytest.approx(0.6)
    assert found["throttled_seconds"] == pytest.approx(8.0)
    assert found["cores"] == [["0", pytest.approx(12.0), 0.0]]
    assert found["throttled_by_class"] == {"burstable": pytest.approx(6.0), "system": pytest.approx(2.0)}
    assert found["stalled_by_class"] == {"guaranteed": pytest.approx(4.0)}
    assert found["families"] == [["/docker/<id>", 120.0, 60.0]]
    waits = dict(zip((*WAITS, float("inf")), found["softirq_wait"]["NET_RX"]["counts"], strict=True))
    assert list(found["softirq_wait"]) == ["NET_RX"] and found["softirq_wait"]["NET_RX"]["sum"] == pytest.approx(1.0)
    assert {name: sum(it["counts"]) for name, it in found["run_delay"].items()} == {"other": 180, "system": 182}
    assert waits[WAITS[0]] == 180 and sum(waits.values()) == 184
    assert [bound for bound, count in waits.items() if count == 4] == [pytest.approx(0.524288)]
