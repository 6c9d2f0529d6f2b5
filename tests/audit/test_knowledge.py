"""The knowledge base: every table is whole, names find their agent, essential units are nobody's to accuse."""

from __future__ import annotations

import pytest

from zombiescope.audit.knowledge import KINDS, Agent, knowledge, read

ASKED_FOR = (
    *("ecs", "docker", "containerd", "cadvisor", "kubelet", "node-exporter", "datadog", "fluentd", "fluent-bit"),
    *("cloudwatch", "ssm", "snap", "lxd", "nomad", "kata", "transient mounts", "session scopes"),
)


@pytest.mark.parametrize("name", ASKED_FOR)
def test_it_knows(name: str) -> None:
    assert name in {agent.name for agent in knowledge().agents}


@pytest.mark.parametrize("agent", knowledge().agents, ids=lambda agent: agent.name)
def test_every_table_is_whole(agent: Agent) -> None:
    assert agent.says and agent.fix and agent.references and (agent.units or agent.cgroups)
    assert bool(agent.units) == bool(agent.use), "a unit without a sign of use could never be called used or unused"
    assert {sign.kind for sign in agent.use} <= KINDS.keys()
    assert len({sign.subject for sign in agent.use}) == len(agent.use), "two signs that look at the same thing"
    assert not any(knowledge().is_essential(unit) for unit in agent.units)


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
    found = knowledge().agent_of(unit)
    assert (found.name if found else None) == agent


@pytest.mark.parametrize(
    ("cgroup", "leaker"),
    [
        ("/system.slice/ecs.service", "ecs"),
        ("/ecs/0a1b/5f0c", "ecs"),
        ("/system.slice/run-r0a1b2c3d.scope", "transient mounts"),
        ("/user.slice/user-0.slice/session-17.scope", "session scopes"),
        ("/kubepods/besteffort/pod1/kata_5f0c", "kubelet"),
        ("/system.slice/ssh.service", None),
    ],
)
def test_cgroups_find_who_is_known_to_leave_them(cgroup: str, leaker: str | None) -> None:
    found = knowledge().leaker_of(cgroup)
    assert (found.name if found else None) == leaker


@pytest.mark.parametrize(
    "unit", ["systemd-journald.service", "dbus.service", "sshd.service", "ssh.service", "NetworkManager.service"]
)
def test_essential(unit: str) -> None:
    assert knowledge().is_essential(unit)


def test_a_misspelt_table_is_an_error_at_once() -> None:
    with pytest.raises(TypeError):
        read('[[agent]]\nname = "x"\nsays = "y"\nunts = ["x.service"]\n')
    with pytest.raises(ValueError, match=r"file_contains .* has no path"):
        read('[[agent]]\nname = "x"\nsays = "y"\n[[agent.use]]\nkind = "file_contains"\npattern = "a"\nsays = "z"\n')
    with pytest.raises(KeyError):
        read('[[agent]]\nname = "x"\nsays = "y"\n[[agent.use]]\nkind = "telepathy"\nsays = "z"\n')


def test_adding_an_agent_is_adding_a_table() -> None:
    table = '[[agent]]\nname = "x"\nsays = "y"\nunits = ["x@*.service"]\n'
    sign = '[[agent.use]]\nkind = "file_exists"\npath = "/x"\nsays = "z"\n'
    agent = read(table + sign).agent_of("x@7.service")
    assert agent is not None and agent.use[0].subject == "file_exists//x"
