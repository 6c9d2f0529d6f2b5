"""The incident, really happening: systemd's restarts, dead cgroups, the walk, the drowned core, the starved queue.

Only the driver's lines are injected, since no card here can be starved on demand, and the job's death is replayed from
what Ray wrote in another run; tests/live/test_ray.py lets a real one die where Ray is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CANNOT, Run
from tests.probes.test_ray_logs import DATA, LOST

from zombiescope.lab import pinterest
from zombiescope.lab._bench import diagnosed
from zombiescope.lab._nic import INJECTED, Queue, say_reset
from zombiescope.lab._scenario import missing, name_for

pytestmark = pytest.mark.kernel
FULL = "saturated_core"


@contextmanager
def replayed_ray() -> Iterator[Path]:
    """A Ray node of this machine whose logs we write: a process that is called as a raylet is, and nothing more."""
    with tempfile.TemporaryDirectory(prefix=name_for("ray")) as folder:
        logs = Path(folder) / "logs"
        (logs / "events").mkdir(parents=True)
        raylet = Path(folder) / "raylet"
        raylet.write_text("#!/bin/sh\nwhile :; do sleep 1; done\n")
        raylet.chmod(0o755)
        told = {"log_dir": logs, "node_id": LOST, "node_ip_address": "10.0.0.7"}
        process = subprocess.Popen([raylet, *(f"--{name}={value}" for name, value in told.items())])
        try:
            yield logs
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(logs, ignore_errors=True)


def gives_up(logs: Path) -> None:
    """What Ray's control service really wrote when a node no longer answered, as of now and of that address."""
    now = time.strftime("%Y-%m-%d %H:%M:%S,000", time.localtime())
    with (DATA / "heartbeats/gcs_server.out").open() as captured, (logs / "gcs_server.out").open("a") as out:
        for line in captured:
            if "Health check failed" in line or "missed too many heartbeats" in line:
                out.write(f"[{now}{line[24:]}".replace("127.0.0.1", "10.0.0.7"))


def grounds(told: dict[str, Any], law: str) -> set[str]:
    return {ground["kind"] for link in told["links"] if link["law"] == law for ground in link["grounds"]}


def test_the_whole_chain_from_a_recording_that_outlives_the_fault(
    tmp_path: Path, zombiescope: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking := missing(pinterest.NEEDS):
        pytest.skip(CANNOT + "; ".join(lacking))
    folder = str(tmp_path / "rec")
    with replayed_ray() as logs:

        def reset_and_lose_the_job(queue: Queue) -> None:
            say_reset(queue)
            time.sleep(2)
            gives_up(logs)

        monkeypatch.setattr(pinterest, "say_reset", reset_and_lose_the_job)
        monkeypatch.setattr(pinterest, "missing", lambda needs: needs)  # no second job, where Ray is installed
        run = diagnosed("pinterest", pinterest, 1.0, folder)
        told = run.told
    chain = told["chains"][0]
    signs = [it["sign"] for it in chain]
    # A core of which a neighbour has its part is not full of the kernel's work; nothing else may be missing.
    shared = run.idle < (os.cpu_count() or 1) - 0.5 and FULL not in signs
    whole = [it for it in pinterest.TRUTH.chain if not (shared and it == FULL)]
    assert signs == [*whole, "job_failure"], told["chains"]
    assert chain[0]["subject"] == "unit:ecs.service" == told["root_causes"][0]["subject"]
    assert chain[-1]["subject"] == f"raynode:{LOST}"
    for law in (
        "crash_looping_unit_to_zombie_cgroups",
        "zombie_cgroups_to_cgroup_walker",
        *(
            ["cgroup_walker_to_starved_softirq"]
            if shared
            else [f"cgroup_walker_to_{FULL}", f"{FULL}_to_starved_softirq"]
        ),
        "starved_softirq_to_driver_reset",
        "driver_reset_to_job_failure",
    ):
        assert grounds(told, law) - {"order"}, law
    reset = next(it for it in told["findings"] if it["sign"] == "driver_reset")
    assert all(INJECTED in it["text"] for it in reset["evidence"] if it["what"] == "kernel_log"), "it says so itself"
    with ThreadPoolExecutor() as both:
        again, once_more = both.map(lambda _: zombiescope("diagnose", folder, "--format", "json").stdout, range(2))
    # The commands of a plan name the Python that runs us, which the lab starts under another name.
    assert json.loads(again.replace("/bin/python3", "/bin/python")) == told and again == once_more
