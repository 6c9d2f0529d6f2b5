"""A whole cluster with one real node that runs our chart, for the tests that `make test-cluster` runs apart."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CANNOT, PROJECT
from tests.kernels.packages import Lacking
from tests.kubernetes.apart import place
from tests.kubernetes.binaries import cache_folder, program
from tests.kubernetes.cluster import Cluster, running
from tests.kubernetes.images import IMAGE, built
from tests.kubernetes.kubelet import NAME, Kubelet, node

CHART = PROJECT / "deploy" / "helm" / "zombiescope"
NAMESPACE = "zombiescope"
# Looks follow each other sooner than by default, and may cost more while other tests keep the machine busy: a look that
# costs 1.5 s of CPU would else be followed by 150 s without one. Nothing else is changed.
VALUES = (
    f"image.repository={IMAGE.partition(':')[0]},image.tag={IMAGE.partition(':')[2]},agent.every=15s,agent.budget=5%"
)


@dataclass
class Whole:
    """Cluster, node and chart."""

    cluster: Cluster
    kubelet: Kubelet

    def helm(self, *argv: str, program_name: str = "helm") -> str:
        command = [program(program_name), "--kubeconfig", str(self.cluster.kubeconfig), "--namespace", NAMESPACE]
        env = os.environ | {"HOME": str(self.cluster.folder)}
        done = subprocess.run([*command, *argv], capture_output=True, text=True, timeout=240, check=False, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def plugin(self, *argv: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", "zombiescope", *argv]
        env = self.kubectl_environment()
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=env)

    def kubectl_environment(self) -> dict[str, str]:
        """In which kubectl is found, with our plugin, and asks this cluster."""
        path = f"{Path(sys.executable).parent}:{cache_folder() / 'bin'}:{os.environ['PATH']}"
        own = {"PATH": path, "KUBECONFIG": str(self.cluster.kubeconfig), "HOME": str(self.cluster.folder)}
        return os.environ | own

    def apply(self, manifest: str) -> None:
        self.cluster.kubectl("apply", "-f", "-", stdin=manifest)

    def starved(self) -> dict[str, Any]:
        return self.cluster.conditions(NAME).get("ZombiescopeStarved", {})

    def logs(self) -> str:
        return self.cluster.kubectl("logs", "-n", NAMESPACE, "daemonset/zombiescope", expect=None).stdout

    def until(self, happened: Callable[[], Any], seconds: float) -> float:
        """How long it took; all that explains a failure is in its message."""
        began = time.monotonic()
        while not happened():
            waited = time.monotonic() - began
            assert waited < seconds, (waited, self.starved(), self.logs()[-3000:])
            time.sleep(1.0)
        return time.monotonic() - began


@pytest.fixture(scope="session")
def bare() -> Iterator[Whole]:
    """A cluster with a node that is Ready."""
    if place() is None:
        pytest.skip(CANNOT + "a node of its own is needed: make test-cluster makes it")
    try:
        images = built()
    except Lacking as lacking:
        pytest.skip(CANNOT + str(lacking))
    with running("0.0.0.0", 443) as cluster:
        cluster.start_controllers()
        with node(cluster, images) as kubelet:
            yield Whole(cluster, kubelet)


@pytest.fixture(scope="session")
def whole(bare: Whole) -> Whole:
    """The chart is installed there."""
    bare.helm(
        "install", "zombiescope", str(CHART), "--create-namespace", "--set", VALUES, "--wait", "--timeout", "180s"
    )
    return bare
