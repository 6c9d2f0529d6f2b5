"""Every service in one row, of a machine whose systemd answers: what runs, restarts, is needed and is not loaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from dbus_fast import Variant
from tests.audit.spoken_systemd import Says, speaking
from tests.files import write

from zombiescope.audit.loops import RestartPolicy
from zombiescope.audit.survey import Row, Survey, survey
from zombiescope.audit.systemd import ANOTHER_BUS, POLICY, Systemd
from zombiescope.core import Host, Unreadable
from zombiescope.treatment.essential import why_essential

pytestmark = pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="dbus-daemon is not installed")

LIB = "usr/lib/systemd/system"
FILE = "[Service]\nExecStart=/bin/true\nRestart=on-failure\nRestartSec=10s\n[Install]\nWantedBy=multi-user.target\n"
FILES = ("ecs", "unloaded", "docker", "worker", "amazon-cloudwatch-agent", "snapd", "template@")
ALWAYS = {
    "Restart": Variant("s", "always"),
    "RestartUSec": Variant("t", 2_000_000),
    "StartLimitIntervalUSec": Variant("t", (1 << 64) - 1),
    "StartLimitBurst": Variant("u", 7),
    "RestartPreventExitStatus": Variant("(aiai)", [[5], [6]]),
}


def counted(*restarts: int) -> dict[str, Sequence[Variant]]:
    return {"NRestarts": [Variant("u", it) for it in restarts]}


UNITS = {
    "ecs.service": Says(
        sub="auto-restart",
        active="activating",
        properties={
            **ALWAYS,
            **counted(3),
            "WantedBy": Variant("as", ["multi-user.target", "idle.service"]),
            "RequiredBy": Variant("as", []),
        },
    ),
    "docker.service": Says(
        properties={**counted(9), "WantedBy": Variant("as", ["multi-user.target", "worker.service", "ecs.service"])}
    ),
    "rises.service": Says(properties=counted(3, 4)),
    "stands.service": Says(properties=counted(40, 40)),
    "few.service": Says(sub="auto-restart", properties=counted(1, 2)),
    "worker.service": Says(properties={"Result": Variant("s", "success")}),
    "idle.service": Says(active="inactive", sub="dead", properties=counted(0)),
    "absent.service": Says(load="not-found", active="inactive", sub="dead"),
    "snapd.service": Says(active="reloading", sub="reload", properties=counted(0)),
    "ssh.socket": Says(sub="listening"),
    "multi-user.target": Says(),
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    root = tmp_path / "root"
    texts = {f"{LIB}/{name}.service": FILE for name in FILES}
    texts |= {
        "etc/machine-id": "",
        "proc/self/mountinfo": "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "proc/2/comm": "kthreadd\n",
        "proc/self/cgroup": "0::/user.slice\n",
    }
    texts |= {f"sys/fs/cgroup/system.slice/{it}/": "" for it in ("ecs.service/a", "ecs.service/b", "worker.service")}
    write(root, texts, {"etc/systemd/system/multi-user.target.wants/ecs.service": f"/{LIB}/ecs.service"})
    with speaking(tmp_path, UNITS) as address:
        monkeypatch.setenv(ANOTHER_BUS, address)
        yield Host(str(root), live=True)


def row(seen: Survey, unit: str) -> Row:
    (found,) = (it for it in seen.rows if it.unit == unit)
    return found


def test_every_service_that_has_a_file_or_is_loaded_once_and_in_order(machine: Host) -> None:
    seen = survey(machine, again=0.01)
    assert [it.unit for it in seen.rows] == sorted(
        {f"{it}.service" for it in FILES} | {it for it in UNITS if it.endswith(".service")} - {"absent.service"}
    )
    assert seen.unseen == () and dict(seen.left) == {"ecs": 3}


def test_restarting_is_a_loop_that_waits_or_rises_now(machine: Host) -> None:
    seen = survey(machine, again=0.01)
    assert {it.unit: it.restarts for it in seen.rows if it.restarting} == {"ecs.service": 3, "rises.service": 4}
    others = {"docker.service": 9, "stands.service": 40, "few.service": 2, "idle.service": 0, "worker.service": None}
    assert {name: row(seen, name).restarts for name in others} == others
    assert not row(survey(machine), "stands.service").restarting, "read once, nothing is seen to rise"


def test_a_unit_that_is_not_loaded_does_not_run_and_its_file_says_how_it_would(machine: Host) -> None:
    seen = survey(machine)
    unloaded = row(seen, "unloaded.service")
    assert unloaded.state == "inactive (not loaded)" and not unloaded.running and not unloaded.starts
    assert (unloaded.restarts, unloaded.policy.restart, unloaded.policy.pause) == (None, "on-failure", 10.0)
    assert (unloaded.enabled, unloaded.path) == ("disabled", f"/{LIB}/unloaded.service")
    assert row(seen, "rises.service").path == "" and row(seen, "rises.service").enabled == "", "and one without a file"
    assert row(seen, "rises.service").policy == RestartPolicy()


def test_what_systemd_says_of_a_policy_counts_before_the_file(machine: Host) -> None:
    seen = survey(machine)
    said = row(seen, "ecs.service").policy
    assert (said.restart, said.pause, said.interval, said.burst) == ("always", 2.0, float("inf"), 7)
    assert said.prevented_by == ("5", "6") and not row(seen, "ecs.service").judged.for_ever
    assert row(seen, "worker.service").policy.restart == "on-failure", "it said nothing of it"


def test_what_runs(machine: Host) -> None:
    found = {it.unit.removesuffix(".service"): (it.state, it.running) for it in survey(machine).rows}
    assert found["ecs"] == ("activating (auto-restart)", True)
    assert found["docker"] == ("active (running)", True)
    assert found["snapd"] == ("reloading (reload)", True)
    assert found["idle"] == ("inactive (dead)", False)


def test_who_needs_an_agent_is_active_and_no_target(machine: Host) -> None:
    seen = survey(machine)
    ecs, docker = row(seen, "ecs.service").use, row(seen, "docker.service").use
    assert ecs is not None and ecs.needed_by == () and ecs.answer == "unused", ecs
    assert docker is not None and docker.needed_by == ("worker.service",), "ecs.service is not active yet"
    idle = row(seen, "amazon-cloudwatch-agent.service")
    assert idle.agent is not None and idle.use is not None and idle.use.answer != "unused", "it neither starts nor runs"
    assert row(seen, "worker.service").use is None and row(seen, "worker.service").agent is None


def test_agents_alone(machine: Host) -> None:
    seen = survey(machine, agents_only=True)
    known = ["amazon-cloudwatch-agent.service", "docker.service", "ecs.service", "snapd.service"]
    assert [it.unit for it in seen.rows] == known and not seen.left
    assert row(seen, "ecs.service").restarts == 3


def test_without_an_answer_the_files_are_left_and_it_is_said(
    machine: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ANOTHER_BUS, f"unix:path={tmp_path}/nobody")
    seen = survey(machine)
    assert [it.unit for it in seen.rows] == sorted(f"{it}.service" for it in FILES) and len(seen.unseen) == 1
    assert row(seen, "ecs.service").state == "" and row(seen, "ecs.service").starts
    assert row(seen, "ecs.service").restarts is None and not row(seen, "ecs.service").restarting


def test_a_masked_unit_starts_nothing_whatever_wants_it(machine: Host) -> None:
    (Path(machine.root) / "etc/systemd/system/ecs.service").symlink_to("/dev/null")
    found = row(survey(machine), "ecs.service")
    assert found.enabled == "masked" and not found.starts


def test_the_last_way_in_is_asked_of_systemd(machine: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh.socket listens: so the agent of a cloud may go, and ssh.service, which is the same way in, may not."""
    assert why_essential("amazon-ssm-agent.service", machine) == ""
    assert "only way left" in why_essential("ssh.service", machine)
    monkeypatch.setenv(ANOTHER_BUS, f"unix:path={tmp_path}/nobody")
    assert "only way left" in why_essential("amazon-ssm-agent.service", machine), "in doubt it is"


def test_more_questions_than_a_bus_takes_at_once_are_all_answered_in_order(machine: Host) -> None:
    with Systemd(_address(machine)) as bus:
        units = bus.units("*.service")
        assert {it.name: it.load for it in units}["absent.service"] == "not-found" and len(units) == 9
        asked = bus.get([it.path for it in units], [*POLICY, *(f"Nothing{it}" for it in range(20)), "NRestarts"])
        by_name = {it.name: asked.get(it.path, {}) for it in units}
        assert by_name["docker.service"] == {"NRestarts": 9} and by_name["worker.service"] == {}
        assert list(by_name["ecs.service"]["RestartPreventExitStatus"]) == [[5], [6]]
        (ecs,) = bus.units("ecs.service")
        assert bus.everything(ecs.path)["Restart"] == "always"
        with pytest.raises(Unreadable, match="NoSuchUnit"):
            bus.everything(f"{ecs.path}x")
        assert bus.units("nobody.service") == []


def _address(machine: Host) -> str:
    from zombiescope.audit.systemd import address_for

    return address_for(machine)
