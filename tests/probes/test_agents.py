"""agents on small roots: what is installed and enabled, each sign of use with where it was looked for."""

from __future__ import annotations

from pathlib import Path

from tests.audit.small_roots import ECS, ETC, LIB, root
from tests.probes.machine import told, unseen

from zombiescope.core import Host, Reading
from zombiescope.probes import agents


def image(folder: Path, files: dict[str, str] | None = None, *, enabled: bool = True) -> Host:
    links = {f"{ETC}/multi-user.target.wants/ecs.service": f"/{LIB}/ecs.service"} if enabled else {}
    root(folder, {f"{LIB}/ecs.service": ECS, f"{LIB}/ssh.service": ECS, **(files or {})}, links)
    return Host(str(folder), live=False)


def test_an_enabled_agent_of_an_image(tmp_path: Path) -> None:
    host = image(tmp_path)
    values = told(agents, host)
    assert values["agent_enabled", "unit:ecs.service"] == 1 and values["agent_leaks", "unit:ecs.service"] == 1
    assert values["agent_uses", "unit:ecs.service"] == 0 and values["agent_uses_unseen", "unit:ecs.service"] == 2
    assert values["agent_use", "use:ecs.service/file_contains//etc/ecs/ecs.config"] == 0
    assert not any("ssh" in subject for _, subject in values), "only known agents are looked at"
    assert "running node only" in unseen(agents, host)["agent_use"]
    texts = {it.what: it.text for it in agents.read(host) if isinstance(it, Reading)}
    assert texts["agent_enabled"] == "enabled by multi-user.target"


def test_a_sign_that_holds(tmp_path: Path) -> None:
    values = told(agents, image(tmp_path, {"etc/ecs/ecs.config": "ECS_CLUSTER=prod\n"}, enabled=False))
    assert values["agent_uses", "unit:ecs.service"] == 1 and values["agent_enabled", "unit:ecs.service"] == 0


def test_what_needs_it_is_a_use(tmp_path: Path) -> None:
    docker = {f"{LIB}/docker.service": ECS, f"{LIB}/ours.service": "[Unit]\nRequires=docker.service\n" + ECS}
    links = {f"{ETC}/multi-user.target.wants/{name}.service": f"/{LIB}/{name}.service" for name in ("docker", "ours")}
    root(tmp_path, docker, links)
    assert told(agents, Host(str(tmp_path), live=False))["agent_uses", "unit:docker.service"] == 1


def test_where_absence_proves_nothing_something_stays_unseen(tmp_path: Path) -> None:
    files = {f"{LIB}/node_exporter.service": ECS, "proc/net/tcp": "", "proc/net/tcp6": ""}
    root(tmp_path, files)
    assert told(agents, Host(str(tmp_path), live=False))["agent_uses_unseen", "unit:node_exporter.service"] == 1
