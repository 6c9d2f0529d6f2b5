"""The knowledge base: every table is whole, names find their agent, units that a node needs are not accused."""

from __future__ import annotations

import pytest

from zombiescope.knowledge.agents import KINDS, Agent, _agent, agent_of, agents, leaker_of
from zombiescope.knowledge.units import needed, never_judge, never_stop

ASKED_FOR = (
    *("ecs", "docker", "containerd", "cadvisor", "kubelet", "node-exporter", "datadog", "fluentd", "fluent-bit"),
    *("cloudwatch", "ssm", "snap", "lxd", "nomad", "kata", "transient mounts", "session scopes"),
)


@pytest.mark.parametrize("name", ASKED_FOR)
def test_it_knows(name: str) -> None:
    assert name in {agent.name for agent in agents()}


@pytest.mark.parametrize("agent", agents(), ids=lambda agent: agent.name)
def test_every_table_is_whole(agent: Agent) -> None:
    assert agent.says and agent.fix and agent.references and (agent.units or agent.cgroups)
    assert bool(agent.units) == bool(agent.use), "a unit without a sign of use could never be called used or unused"
    assert {sign.kind for sign in agent.use} <= KINDS.keys()
    assert len({sign.subject for sign in agent.use}) == len(agent.use), "two signs that look at the same thing"
    assert not any(never_judge(unit) for unit in agent.units)


@pytest.mark.parametrize(
    ("unit", "agent"),
    [
        ("ecs.service", "ecs"),
        ("docker.service", "docker"),
        ("snap.lxd.daemon.service", "lxd"),
        ("prometheus-node-exporter.service", "node-exporter"),
        ("my-cadvisor.service", "cadvisor"),
        ("nginx.service", None),
    ],
)
def test_units_find_their_agent(unit: str, agent: str | None) -> None:
    assert getattr(agent_of(unit), "name", None) == agent


LEAKERS = {
    "/system.slice/ecs.service": "ecs",
    "/ecs/0a1b/5f0c": "ecs",
    "/system.slice/run-r0a1b2c3d.scope": "transient mounts",
    "/user.slice/user-0.slice/session-17.scope": "session scopes",
    "/kubepods/besteffort/pod1/kata_5f0c": "kubelet",
    "/system.slice/ssh.service": None,
}


@pytest.mark.parametrize(("cgroup", "leaker"), LEAKERS.items())
def test_cgroups_find_who_is_known_to_leave_them(cgroup: str, leaker: str | None) -> None:
    assert getattr(leaker_of(cgroup), "name", None) == leaker


@pytest.mark.parametrize(
    "unit", ["systemd-journald.service", "dbus.service", "sshd.service", "ssh.service", "NetworkManager.service"]
)
def test_never_judged(unit: str) -> None:
    assert never_judge(unit)


def test_a_misspelt_table_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="there is no key 'unts'"):
        _agent({"name": "x", "says": "y", "unts": ["x.service"]})
    with pytest.raises(ValueError, match=r"file_contains .* has no path"):
        _agent({"name": "x", "says": "y", "use": [{"kind": "file_contains", "pattern": "a", "says": "z"}]})
    with pytest.raises(ValueError, match="no such kind of sign of use: telepathy"):
        _agent({"name": "x", "says": "y", "use": [{"kind": "telepathy", "says": "z"}]})


def test_the_list_of_units_says_what_it_means() -> None:
    assert all(it.units and it.why and (it.never_stop or it.never_judge) for it in needed())
    assert all(it.never_stop for it in needed() if it.only_while), "a condition without a flag means nothing"


@pytest.mark.parametrize("unit", ["dbus.service", "NetworkManager.service", "lvm2-monitor.service", "home.mount"])
def test_what_is_never_judged_for_its_use_is_not_stopped_either(unit: str) -> None:
    assert never_judge(unit) and never_stop(unit)
