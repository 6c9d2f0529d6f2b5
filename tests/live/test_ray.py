"""A real Ray cluster of two nodes, in namespaces of its own as a container has: what dies is found, and told rightly.

Health checks are tightened, so that a node is given up after seconds and not after a minute.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ray_namespaces import contained, needs_ray, told

from zombiescope.core import Case, Host
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import healthy
from zombiescope.probes import ray_logs
from zombiescope.recorder.sampling import look
from zombiescope.recorder.tape import Tape
from zombiescope.signs import job_failure

pytestmark = [pytest.mark.kernel, needs_ray]
PATIENCE = 120.0  # seconds for Ray to start, and to notice, on a slow machine
CLUSTER = """
import os, signal, sys, time, ray
from ray.cluster_utils import Cluster

checks = {"period_ms": 500, "timeout_ms": 1000, "failure_threshold": 3, "initial_delay_ms": 0}
conf = {f"health_check_{name}": value for name, value in checks.items()}
store = {"num_cpus": 1, "object_store_memory": 80 << 20}
cluster = Cluster(initialize_head=True, head_node_args={**store, "_system_config": conf})
second = cluster.add_node(**store, resources={"second": 1})
ray.init(address=cluster.address, log_to_driver=False)

@ray.remote
class Trainer:
    def pid(self): return os.getpid()

@ray.remote(max_retries=0)
def raises(): raise ValueError("a mistake of its own")

killed, stopped = Trainer.remote(), Trainer.options(resources={"second": 1}).remote()
pids = ray.get([killed.pid.remote(), stopped.pid.remote()])
print("ready", killed._actor_id.hex(), stopped._actor_id.hex(), second.node_id, flush=True)
sys.stdin.readline()
try:
    ray.get(raises.remote())
except ValueError:
    pass
os.kill(pids[0], signal.SIGKILL)
time.sleep(1)
for pid in [*(it.process.pid for it in second.all_processes["raylet"]), pids[1]]:
    os.kill(pid, signal.SIGSTOP)
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    with contained(tmp_path, script) as process:
        yield process


def test_a_killed_actor_and_a_node_that_hangs(cluster: subprocess.Popen[str]) -> None:
    killed, stopped, node = told(cluster.stdout, "ready")
    tape, case = Tape(), Case(node="", kernel="", span=Tape().timeline().span)
    with ray_logs.watch(Host()) as eye:
        look(Host(), "ray_logs", healthy("probes")["ray_logs"], tape, eye)
        began = time.time()
        assert cluster.stdin is not None
        cluster.stdin.write("go\n")
        cluster.stdin.flush()
        told(cluster.stdout, "done")
        deadline = time.monotonic() + PATIENCE
        while f"raynode:{node}" not in {it.subject for it in case.findings} and time.monotonic() < deadline:
            time.sleep(1)
            look(Host(), "ray_logs", healthy("probes")["ray_logs"], tape, eye)
            case = examine(tape.timeline(), signs={"job_failure": job_failure}, laws={})
    nodes = tape.timeline().subjects("ray_node")
    assert len(nodes) >= 2 and f"raynode:{node}" in nodes, "found by their processes, though their files are not ours"
    says = {it.subject: it.says for it in case.findings if it.span.start >= began - 2}
    assert says[f"actor:{killed}"] == "ended without a message: it was killed or it crashed"
    assert says[f"actor:{stopped}"] == "died with its node, which missed too many heartbeats and was marked dead"
    assert says[f"raynode:{node}"].startswith("ran here and was marked dead after ")
    assert says["job:01000000"].startswith("lost a worker (pid ")
    assert set(says) == {f"actor:{killed}", f"actor:{stopped}", f"raynode:{node}", "job:01000000"}
    assert all("/root/tmp/zslab-ray" in it.source for finding in case.findings for it in finding.evidence)
