"""The rest of docs/kubernetes.md: the way without Helm; and that every command of the page was run."""

from __future__ import annotations

import pytest
from tests.kubernetes.kubelet import NAME
from tests.kubernetes.node.conftest import REPOSITORY, Whole

pytestmark = pytest.mark.alone


def test_without_helm(bare: Whole) -> None:
    bare.cluster.kubectl("delete", "namespace", "zombiescope", "--ignore-not-found", "--wait=true")
    bare.page.run("kubectl apply -k")
    bare.page.run("kubectl --namespace zombiescope rollout status")
    bare.until(lambda: bare.starved().get("reason") not in (None, "AgentStopped"), 60)
    bare.page.run("kubectl --namespace zombiescope delete daemonset")
    bare.until(lambda: bare.starved()["reason"] == "AgentStopped", 60)
    bare.page.run("kubectl delete -k")
    assert bare.cluster.conditions(NAME)["Ready"]["status"] == "True"


def test_every_command_of_the_page_was_run(bare: Whole, request: pytest.FixtureRequest) -> None:
    """The image of this very node was built by the page's first command, with a base from here."""
    if request.config.getoption("-k") or request.config.getoption("-x"):
        pytest.skip("not all tests run")
    assert f"make image IMAGE={REPOSITORY}:" in bare.page.named("make image")
    assert REPOSITORY in bare.kubelet.ctr("images", "list")
    assert set(bare.page.every) == bare.page.done
