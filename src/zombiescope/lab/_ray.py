"""A real Ray cluster of two nodes in network namespaces, whose job dies when the link between them goes down.

Each node has its own PID namespace: when its first process exits, the kernel kills all that Ray started. Ray writes to
a tmpfs that only the node sees. Health checks are tightened, so that a node is declared dead after seconds and not
after a minute. Needs Ray in the same Python environment; nothing of it is imported here.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from zombiescope.core import UserError
from zombiescope.lab._scenario import PREFIX, name_for
from zombiescope.lab._veth import End, cable, ip
from zombiescope.lab._worker import die_with_parent
from zombiescope.places.own_python import FOLDER, environment

# By default Ray checks a node every 3 s, waits 10 s for the answer, and declares it dead after five failures.
CHECKS = {"period_ms": 500, "timeout_ms": 1000, "failure_threshold": 3, "initial_delay_ms": 0}
PATIENCE = 120.0  # seconds for both nodes to start: 7 on an idle machine with two cores
PULLED = 8.0  # seconds without a link; declared dead after three checks, 4 s
_PORT = 6379
_STORE = 80 << 20  # bytes for objects; Ray needs at least 75 MB
# The job calls its actor on the other node every 0.5 s, like a training step, until the actor is dead.
_JOB = """
import sys, time, ray
from ray.exceptions import RayActorError
ray.init(address="auto", log_to_driver=False)
@ray.remote(resources={"far": 1}, max_restarts=0)
class Trainer:
    def step(self): return 1
trainer = Trainer.remote()
ray.get(trainer.step.remote())
print("ready", flush=True)
try:
    while True:
        ray.get(trainer.step.remote())
        time.sleep(0.5)
except RayActorError as error:
    print("dead", type(error).__name__, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Two Ray nodes at work on one job."""

    far: End

    def lose_the_link(self) -> None:
        """Take the link down for as long as a reset takes, which is longer than Ray waits."""
        ip("-n", self.far.namespace, "link", "set", self.far.nic, "down")
        time.sleep(PULLED)
        ip("-n", self.far.namespace, "link", "set", self.far.nic, "up")


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Two nodes with a running job; all of it is removed at the end."""
    folder = f"/tmp/{name_for('ray')}"  # short: socket paths have at most 107 bytes
    environ = {
        **environment(),
        "HOME": folder,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(16),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with ExitStack() as undo:
        near, far = undo.enter_context(cable((f"{PREFIX}ra", f"{PREFIX}rb"), "10.213.11"))
        os.mkdir(folder)
        undo.callback(os.rmdir, folder)
        conf = json.dumps({f"health_check_{name}": value for name, value in CHECKS.items()})
        head = ["--head", f"--port={_PORT}", "--include-dashboard=false", f"--system-config={conf}"]
        start = f"{shlex.join(_start(near, folder, *head))} && exec {shlex.join([sys.executable, '-I', '-c', _JOB])}"
        job = undo.enter_context(_node(near, folder, start, environ))
        other = _start(far, folder, f"--address={near.address}:{_PORT}", '--resources={"far": 1}', "--block")
        # Retried until the head node listens.
        undo.enter_context(_node(far, folder, f"until {shlex.join(other)}; do sleep 1; done", environ))
        _wait_for(job, "ready")
        yield Cluster(far)


def _start(end: End, folder: str, *options: str) -> list[str]:
    usual = [f"--node-ip-address={end.address}", f"--temp-dir={folder}", f"--object-store-memory={_STORE}"]
    ray = [sys.executable, "-I", "-m", "ray.scripts.scripts", "start"]
    return [*ray, "--num-cpus=1", "--disable-usage-stats", "--include-log-monitor=false", *usual, *options]


@contextmanager
def _node(end: End, folder: str, script: str, environ: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a shell script in its own namespaces, at one end of the link; only the job's output is kept."""
    ip("-n", end.namespace, "link", "set", "lo", "up")
    inside = f"mount -t tmpfs tmpfs {folder} && mount -t tmpfs tmpfs /dev/shm && {script}"
    alone = ["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c", inside]
    process = subprocess.Popen(
        [*end.inside, *alone],
        text=True,
        env=environ,
        cwd=FOLDER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _wait_for(process: subprocess.Popen[str], word: str) -> None:
    """Wait until it prints that word; Ray itself prints much before it."""
    assert process.stdout is not None
    patience = threading.Timer(PATIENCE, process.kill)
    patience.start()
    try:
        if not any(line.startswith(word) for line in process.stdout):
            raise UserError(f"Ray exited before its job was running, or took more than {PATIENCE:.0f} s to start")
    finally:
        patience.cancel()
