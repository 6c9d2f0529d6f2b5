"""Real containers (podman and runc): throttling and leaked cgroups are put down to the right one, by name and image."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CANNOT, Run
from tests.meanwhile import meanwhile

from zombiescope.cgroups.owners import owner
from zombiescope.core import Host, Reading, UserError
from zombiescope.kernel.lru_drain import drain
from zombiescope.lab import container_throttled
from zombiescope.lab._containers import IMAGE, Podman, podman
from zombiescope.lab._scenario import missing, name_for
from zombiescope.probes import containers
from zombiescope.recorder.short import record

pytestmark = pytest.mark.kernel


@pytest.fixture
def runtime() -> Iterator[Podman]:
    if lacking := missing(container_throttled.NEEDS):
        pytest.skip(CANNOT + "; ".join(lacking))
    try:
        with podman() as one:
            yield one
    except UserError as error:
        pytest.skip(CANNOT + f"run a container: {error}")


def container_info(host: Host) -> dict[str, Reading]:
    return {it.subject: it for it in containers.read(host) if isinstance(it, Reading) and it.what == "container_info"}


def test_a_container_is_known_by_its_cgroup_and_forgotten_when_it_goes(runtime: Podman) -> None:
    name = name_for("web")
    cgroup = f"cgroup:{runtime.run(name, 'sleep 600')}"
    stays = f"cgroup:{runtime.run(name + '-2', 'sleep 600')}"
    assert container_info(Host())[cgroup].text == f"container {name}, image {IMAGE} (podman)"
    with containers.watch(Host()) as look:
        assert {cgroup: 1.0, stays: 1.0}.items() <= values(look()).items()
        runtime("rm", "-f", "-t", "0", name)
        seen = values(look())
        assert seen[cgroup] == 0.0 and stays not in seen, "what stays is not told again"
        assert cgroup not in values(look())


def values(seen: Any) -> dict[str, float]:
    return {it.subject: it.value for it in seen if isinstance(it, Reading) and it.what == "container_info"}


@pytest.mark.usefixtures("as_before")
def test_throttling_is_found_in_the_container_that_has_the_quota() -> None:
    if lacking := missing(container_throttled.NEEDS):
        pytest.skip(CANNOT + "; ".join(lacking))
    with container_throttled.run() as fault:
        only = ("cpu_throttling", "containers", "proc_stat")
        timeline = record(Host(), 6.0, only=only).timeline()
    assert container_throttled.TRUTH.names(fault.subject)
    periods, stopped = (
        timeline.series(f"cgroup_{what}_total", fault.subject) for what in ("periods", "throttled_periods")
    )
    ran = periods.latest.value - periods.first.value
    assert ran > 20 and (stopped.latest.value - stopped.first.value) / ran > 0.5
    assert owner(timeline, fault.subject) == f"container {name_for('throttled')}, image {IMAGE} (podman)"
    assert not os.path.exists(f"/sys/fs/cgroup/cpu{fault.subject.removeprefix('cgroup:')}")


@contextmanager
def made_again_and_again(runtime: Podman, name: str, shared: Path) -> Iterator[list[str]]:
    """What a supervisor does: one container after the other, each of which leaves a page in memory that outlives it."""
    cgroups: list[str] = []

    def loop(over: threading.Event) -> None:
        while not over.is_set():
            script = f"echo z > /shared/{len(cgroups)}; sleep 1"
            cgroups.append(runtime.run(name, script, "--rm", "-v", f"{shared}:/shared"))
            time.sleep(0.2)
            runtime("rm", "-f", "-t", "0", "-i", name)

    with meanwhile(loop):
        yield cgroups


@pytest.mark.long  # the lab has it as container_churn
def test_a_container_that_is_made_anew_again_and_again_is_named_as_who_leaks(runtime: Podman, zombiescope: Run) -> None:
    stays, leaky = name_for("innocent"), name_for("leaky")
    runtime.run(stays, "sleep 600")
    shared = Path("/dev/shm") / name_for("leaky")
    shared.mkdir()
    try:
        with made_again_and_again(runtime, leaky, shared) as cgroups:
            while not cgroups:
                time.sleep(0.05)
            argv = ("--seconds", "14", "--format", "json", "--set", "zombie_cgroups.FEW=1", "--set")
            shape = json.loads(zombiescope("diagnose", *argv, "zombie_cgroups.GROWTH=3", expect=1).stdout)
        families = json.loads(zombiescope("census", "--names", "--format", "json", expect=0).stdout)["families"]
    finally:
        subprocess.run(["rm", "-rf", str(shared)], check=True)
        drain()
    (churn,) = (
        it for it in shape["findings"] if it["sign"] == "cgroup_churn" and runtime_family(runtime) in it["subject"]
    )
    assert churn["says"].endswith(f": container {leaky}, image {IMAGE} (podman)"), churn["says"]
    assert stays not in churn["says"]
    assert any(it["what"] == "container_info" and leaky in it["text"] for it in churn["evidence"])
    dead = [it for it in families if runtime_family(runtime) in it["name"]]
    assert dead and dead[0]["dying"] >= 3 and dead[0]["belonged_to"].startswith("container:")


def runtime_family(runtime: Podman) -> str:
    return runtime.cgroup.rpartition("-")[0] + "-<n>/libpod-<id>"
