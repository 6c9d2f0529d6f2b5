"""A real agent that reports to an API server: its first look, its reload, its end."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from tests.agent.running import running
from tests.kubernetes.bad_server import BadServer, bad_server, says
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.test_reporter import NODE, patches
from tests.waiting import until

from zombiescope.kubernetes.access import Access
from zombiescope.kubernetes.conditions import TYPES

pytestmark = pytest.mark.alone
SOON = ("--every", "2s", "--window", "60s")


def kubeconfig(access: Access, file: Path) -> str:
    server = {"server": access.server, "certificate-authority": access.ca.file}
    told = {
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"tokenFile": access.token.file}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(told))
    return str(file)


def reasons(server: BadServer) -> list[str]:
    return [told["ZombiescopeStarved"]["reason"] for told in patches(server)]


def test_the_agent_says_what_it_sees_and_that_it_stopped(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(200, NODE)) as (server, access):
        options = ("--kubernetes", "--kubeconfig", kubeconfig(access, tmp_path / "kubeconfig"), "--node-name", "n1")
        with running(tmp_path / "rec", *options, *SOON) as agent:
            agent.until(lambda: patches(server))
            first = patches(server)[0]
            assert set(first) == set(TYPES)
            assert all(it["reason"] != "AgentStopped" for it in first.values())
            assert b"kubernetes" in agent.get("/metrics")
        until(lambda: reasons(server)[-1] == "AgentStopped")
    assert server.got[0].startswith("GET /api/v1/nodes/n1 ")


def test_a_reload_of_other_settings_says_nothing_new_and_off_says_that_it_stopped(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(200, NODE)) as (server, access):
        file, config = kubeconfig(access, tmp_path / "kubeconfig"), tmp_path / "agent.toml"
        keys = f'kubernetes = "on"\nkubeconfig = "{file}"\nnode-name = "n1"\nevery = "2s"\nwindow = "60s"\n'
        config.write_text(keys)
        with running(tmp_path / "rec", "--config", str(config)) as agent:
            agent.until(lambda: patches(server))
            config.write_text(keys + 'webhook = "http://127.0.0.1:1/"\n')
            agent.process.send_signal(signal.SIGHUP)
            agent.until(lambda: agent.said("reloaded"))
            assert "AgentStopped" not in reasons(server)
            config.write_text('every = "2s"\nwindow = "60s"\n')
            agent.process.send_signal(signal.SIGHUP)
            agent.until(lambda: reasons(server)[-1] == "AgentStopped")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--kubernetes",), "not in a pod"),
        (("--kubernetes", "--kubeconfig", "/no/such/file"), "no such file"),
        (("--kubernetes", "--kubeconfig", "{file}", "--node-name", "../x"), "not the name of a node"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, options: tuple[str, ...], words: str, zombiescope: object) -> None:
    access = Access(server="https://127.0.0.1:1")
    file = kubeconfig(access, tmp_path / "kubeconfig")
    argv = [it.format(file=file) for it in options]
    done = zombiescope("agent", "--dir", str(tmp_path / "rec"), *argv, expect=2)  # type: ignore[operator]
    assert words in done.stderr and done.stderr.count("\n") == 1


def test_in_a_real_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """With the rights of the manifests, found as a pod finds them."""
    cluster.kubectl("apply", "-k", str(Path(__file__).parents[2] / "deploy" / "kustomize" / "base"))
    name = f"agent-{os.getpid()}"
    cluster.node(name)
    access = cluster.service_account("zombiescope", "zombiescope", tmp_path / "account")
    options = ("--kubernetes", "--kubeconfig", kubeconfig(access, tmp_path / "kubeconfig"))
    with running(tmp_path / "rec", *options, *SOON, env={"NODE_NAME": name}) as agent:
        agent.until(lambda: "ZombiescopeStarved" in cluster.conditions(name))
        assert set(cluster.conditions(name)) == {"Ready", *TYPES}
        assert agent.said("could not be posted") is None
    assert cluster.conditions(name)["ZombiescopeStarved"]["reason"] == "AgentStopped"
    account = [it for it in cluster.asked("system:serviceaccount:zombiescope") if name in it["requestURI"]]
    assert {it["verb"] for it in account} == {"get", "patch"}
    assert all(it["responseStatus"]["code"] == 200 for it in account)
