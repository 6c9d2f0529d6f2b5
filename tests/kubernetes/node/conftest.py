"""A whole cluster with one real node that runs our chart, for the tests that `make test-cluster` runs apart."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from tests.conftest import CANNOT, PROJECT
from tests.kernels.packages import Lacking
from tests.kubernetes.apart import place
from tests.kubernetes.binaries import program
from tests.kubernetes.cluster import ADMIN, Cluster, running
from tests.kubernetes.images import IMAGE, built
from tests.kubernetes.kubelet import NAME, Kubelet, node
from tests.kubernetes.node.documented import Documented
from tests.looping_unit import looping

from zombiescope import __version__
from zombiescope.kubernetes.client import Refused
from zombiescope.lab._systemd import Booted, booted

CHART = PROJECT / "deploy" / "helm" / "zombiescope"
NAMESPACE = "zombiescope"
REPOSITORY = IMAGE.partition(":")[0]
SOONER = "agent.every=10s,agent.budget=25%,agent.quiet=1m"  # for what would else take five quiet minutes
PROXY = f"/api/v1/namespaces/{NAMESPACE}/pods/{{pod}}:9480/proxy"  # to the agent's own port

UNIT = "ecs.service"
# Each run writes a log that outlives its cgroup and keeps it; the node's /run is in memory.
LEAKS = looping("echo cannot register > /var/lib/agent/$$$$.log; exit 1", pause=1.0)


def deployment(name: str, pod: str, kind: str = "Deployment") -> str:
    """A Deployment with one pod of this description, or a DaemonSet."""
    return f"""
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}, namespace: default}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
{indent(pod.strip(), " " * 6)}
"""


def crasher(name: str, seconds: int, kind: str = "Deployment") -> str:
    """Each run leaves a page in memory that outlives it, so its cgroup stays."""
    leak = "head -c 65536 /dev/zero > /leak/$(cat /proc/sys/kernel/random/uuid)"
    return deployment(
        name,
        f"""
containers:
  - name: web
    image: {IMAGE}
    command: [sh, -c, "{leak}; sleep {seconds}; exit 5"]
    volumeMounts: [{{name: leak, mountPath: /leak}}]
volumes: [{{name: leak, emptyDir: {{medium: Memory}}}}]
""",
        kind,
    )


# The control: work that ends well, one container after the other, is no loop.
JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: well, namespace: default}}
spec:
  completions: 6
  template:
    spec:
      restartPolicy: OnFailure
      containers: [{{name: work, image: {IMAGE}, command: [sh, -c, "sleep 1"]}}]
"""


def few(asked: list[dict[str, Any]], seconds: float) -> None:
    """For each change one patch of the conditions, ten seconds apart at least; for each finding one event, ten at once,
    then one a minute, each with two requests at most before it. How much there is to say is up to this machine."""
    about = [it["objectRef"]["resource"] for it in asked]
    print(f"{len(asked)} requests in {seconds:.0f} s: {dict(Counter(about))}")
    assert about.count("nodes") <= 3 + seconds / 30, asked
    assert len(asked) - about.count("nodes") <= 3 * (10 + seconds / 60), asked


@dataclass
class Whole:
    """Cluster, node and chart."""

    cluster: Cluster
    kubelet: Kubelet
    systemd: Booted
    page: Documented
    folder: Path
    notes: dict[str, float] = field(default_factory=dict)  # what one test has to tell another

    def helm(self, *argv: str, program_name: str = "helm") -> str:
        command = [program(program_name), "--kubeconfig", str(self.cluster.kubeconfig), "--namespace", NAMESPACE]
        env = os.environ | {"HOME": str(self.cluster.folder)}
        done = subprocess.run([*command, *argv], capture_output=True, text=True, timeout=240, check=False, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def upgrade(self, values: str) -> None:
        chosen = f"image.repository={REPOSITORY},{values}"
        self.helm("upgrade", "zombiescope", str(CHART), "--set", chosen, "--wait", "--timeout", "180s")

    def apply(self, manifest: str) -> None:
        self.cluster.kubectl("apply", "-f", "-", stdin=manifest)

    def away(self, *what: str) -> None:
        """Deleted, and gone."""
        self.cluster.kubectl("delete", *what, "--wait=true", "--ignore-not-found")

    def starved(self) -> dict[str, Any]:
        return self.cluster.conditions(NAME).get("ZombiescopeStarved", {})

    def begun(self, pod: str) -> list[dict[str, Any]]:
        """Events of crash loops of pods whose name begins so."""
        return self.events("CrashLoopingContainer", f"default/{pod}-")

    def events(self, reason: str, name: str) -> list[dict[str, Any]]:
        return [it for it in self.cluster.events(NAME) if it["reason"] == reason and name in it["message"]]

    def outdone(self) -> bool:
        """Whether this machine has a fault of its own that is worse than the crash loops: the condition names that."""
        reason = self.starved().get("reason")
        others = {it["reason"] for it in self.cluster.events(NAME) if it["type"] == "Warning"}
        return reason not in ("CrashLoopingContainer", "CrashLoopingUnit") and reason in others

    def logs(self) -> str:
        return self.cluster.kubectl("logs", "-n", NAMESPACE, "daemonset/zombiescope", expect=None).stdout

    def pods(self, selector: str, namespace: str = "default") -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector.replace('=', '%3D').replace('/', '%2F')}"
        found: list[dict[str, Any]] = self.cluster.client.get(path).body["items"]
        return [it for it in found if "deletionTimestamp" not in it["metadata"]]

    @property
    def agent(self) -> dict[str, Any]:
        """The pod of the agent."""
        (found,) = self.pods("app.kubernetes.io/name=zombiescope", NAMESPACE)
        return found

    def agent_says(self, path: str) -> str:
        """A page that the agent serves to anybody, through the API server."""
        where = PROXY.format(pod=self.agent["metadata"]["name"])
        return self.cluster.kubectl("get", "--raw", where + path).stdout

    def requests(self, since: float) -> list[dict[str, Any]]:
        """Of the agent, answered since then; also those that were refused. The test's own client has the same name."""
        begun = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since))
        ours = [it for it in self.cluster.asked() if it.get("userAgent", "").startswith("zombiescope/")]
        theirs = [it for it in ours if it["user"].get("username") != ADMIN]
        return [it for it in theirs if it["requestReceivedTimestamp"] >= begun]

    def until(self, happened: Callable[[], Any], seconds: float) -> float:
        """How long it took; all that explains a failure is in its message. A busy server may not answer at once."""
        began, trouble = time.monotonic(), ""
        while True:
            try:
                if happened():
                    return time.monotonic() - began
            except Refused as error:
                trouble = str(error)
            if time.monotonic() - began > seconds:
                raise AssertionError(f"{seconds:.0f} s; {trouble}; {self.starved()}; {self.logs()[-3000:]}")
            time.sleep(1.0)


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """A cluster with a node that is Ready and has our image by the names that the page and the manifests have."""
    if place() is None:
        pytest.skip(CANNOT + "a node of its own is needed: make test-cluster makes it")
    try:
        images = built()
    except Lacking as lacking:
        pytest.skip(CANNOT + str(lacking))
    folder = tmp_path_factory.mktemp("reader")
    names = {"registry.example/zombiescope": REPOSITORY, "./rec": f"{folder}/rec", "node.folded": f"{folder}/folded"}
    with running("0.0.0.0", 443) as cluster, own_systemd() as systemd:
        cluster.start_controllers()
        with node(cluster, images) as kubelet:
            for name in (f"{REPOSITORY}:{__version__}", f"docker.io/library/zombiescope:{__version__}"):
                kubelet.ctr("images", "tag", IMAGE, name)
            page = Documented(cluster.kubeconfig, cluster.folder, {"NODE": NAME, **names})
            yield Whole(cluster, kubelet, systemd, page, folder)


@contextmanager
def own_systemd() -> Iterator[Booted]:
    """A real systemd with a unit that leaks, not yet started."""
    logs = "/run/agent-logs"
    os.makedirs(logs)
    unit = {f"/usr/lib/systemd/system/{UNIT}": LEAKS}
    with booted({}, files=unit, binds={"/var/lib/agent": logs}, label="node") as systemd:
        yield systemd


@pytest.fixture(scope="session")
def whole(bare: Whole) -> Whole:
    """The chart is installed there, as the page says, with all its defaults.

    The node's systemd has cgroups in a namespace of its own here, so the agent has to know which systemd it is.
    """
    bare.page.run("helm install")
    bus = f"ZOMBIESCOPE_SYSTEMD_BUS={bare.systemd.bus}"
    bare.cluster.kubectl("set", "env", "daemonset/zombiescope", bus, "-n", NAMESPACE)
    bare.page.run("kubectl --namespace zombiescope rollout status")
    return bare


@pytest.fixture(scope="session")
def crashing(whole: Whole) -> Whole:
    """A unit of the node that crashes and leaks, a Deployment whose container keeps crashing, and a Job that ends well;
    `applied` says when that began."""
    whole.until(whole.starved, 90)
    whole.notes["applied"] = time.monotonic()
    whole.systemd.systemctl("start", "--no-block", UNIT)
    whole.apply(crasher("crasher", 3))
    whole.apply(JOB)
    return whole
