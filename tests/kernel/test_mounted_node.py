"""--host: a real container with its own root, network, name and cgroup namespace sees the node, never itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pod import DECOY, POD, in_pod, pod_cgroups

from zombiescope.kernel.mounted_node import NO_CGROUP_NAMES, NO_KERNEL_FILES, NO_NETWORK, NO_PROCESSES
from zombiescope.lab._systemd import BUS, booted

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("pod")]
MEASURED = ("growth_over_seconds", "growth_per_hour", "stat_read_seconds")  # differ from one second to the next
READ = """
import sys
from zombiescope.core import Unreadable
from zombiescope.kernel.mounted_node import host_at
host = host_at("/host")
for path in sys.argv[1:]:
    try:
        print(host.read(path).strip().replace("\\n", "#"))
    except Unreadable as error:
        print(f"BLIND {error}")
"""


@pytest.fixture
def pod() -> Iterator[None]:
    with pod_cgroups():
        yield


@pytest.fixture
def neighbour() -> Iterator[int]:
    """A process of the node, in a cgroup beside the pod's."""
    folders = [Path(f"/sys/fs/cgroup/{it}/zstest-neighbour/a") for it in ("memory", "unified")]
    process = subprocess.Popen(["sleep", "100"])
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text(str(process.pid))
    yield process.pid
    process.kill()
    process.wait()
    for folder in folders:
        for it in (folder, folder.parent):
            it.rmdir()


def on_the_node(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "zombiescope", *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def asked(line: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command, in the pod."""
    return in_pod("-m", "zombiescope", *line.split(), **options)


def census(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    shape: dict[str, Any] = json.loads(done.stdout)
    return {key: value for key, value in shape.items() if key not in MEASURED}


def same_census(**options: Any) -> None:
    """What the pod counts is what the node counts just before and just after; others may make cgroups meanwhile."""
    ask = "census --format json"
    for _ in range(8):
        before = census(on_the_node(*ask.split()))
        seen = census(asked(f"{ask} --host /host", **options))
        if before == census(on_the_node(*ask.split())):
            assert seen == before
            assert seen["controllers"]["memory"]["live"] > 2
            assert seen["blind"] == []
            return
        time.sleep(1)
    pytest.fail("cgroups came and went all the time: nothing to compare")


@pytest.mark.parametrize(
    "options",
    [{}, {"host_pid": False}, {"without": ["sys_admin"]}, {"without": ["sys_ptrace"]}],
    ids=["a privileged pod", "no hostPID", "no CAP_SYS_ADMIN", "no CAP_SYS_PTRACE"],
)
def test_the_census_is_that_of_the_node(options: dict[str, Any]) -> None:
    same_census(**options)


def test_without_submounts_the_kernel_is_asked_through_the_root_of_pid_1() -> None:
    if os.path.exists("/proc/1/root/sys"):
        same_census(submounts=False)
    else:  # nobody may look into PID 1 here
        done = asked("census --host /host", submounts=False)
        assert done.returncode == 3
        assert NO_KERNEL_FILES.format(root="/host") in done.stderr


@pytest.mark.beside
def test_what_is_not_reachable_is_blind_with_what_to_grant() -> None:
    done = asked("census --host /host", submounts=False, host_pid=False)
    assert done.returncode == 3
    assert NO_PROCESSES in done.stderr
    told = asked("diagnose --seconds 0 --format json --host /host", submounts=False, host_pid=False)
    states = {it["sign"]: (it["state"], it["says"]) for it in json.loads(told.stdout)["verdicts"]}
    assert states["defunct_processes"][0] == "blind"
    assert NO_PROCESSES in states["defunct_processes"][1]
    assert states["zombie_cgroups"][0] == "blind"


def audit(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode in (0, 1, 3), done.stderr
    shape: dict[str, Any] = json.loads(done.stdout)
    del shape["root"]
    shape["blind"] = [it.replace("/host/run", "/run") for it in shape["blind"]]
    return shape


def test_the_audit_is_that_of_the_node_and_never_of_the_container() -> None:
    ask = "audit --all --format json"
    shape = audit(asked(f"{ask} --host /host"))
    own = audit(asked(ask))
    assert [it["unit"] for it in own["units"]] == [DECOY]  # what a tool without --host would report
    assert DECOY not in json.dumps(shape)
    assert len(shape["units"]) > 20
    assert shape == audit(on_the_node(*ask.split()))


@pytest.mark.beside
def test_diagnosis_and_recording_are_of_the_node(tmp_path: Path) -> None:
    name = Path("/proc/sys/kernel/hostname").read_text().strip()
    done = asked("diagnose --seconds 1 --hz 0 --format json --host /host")
    assert json.loads(done.stdout)["node"] == name
    assert DECOY not in done.stdout
    assert POD in asked("diagnose --seconds 0 --format json").stdout  # without --host
    done = asked(
        "record /rec/it --for 2 --host /host",
        also=f"mkdir $new/rec; mount --bind {tmp_path} $new/rec",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "it/meta.json").read_text())["node"] == name
    assert json.loads(on_the_node("diagnose", str(tmp_path / "it"), "--format", "json").stdout)["node"] == name


def test_kernel_files_are_those_that_pid_1_sees(neighbour: int) -> None:
    files = (f"/proc/{neighbour}/cgroup", "/proc/self/mountinfo", "/proc/net/dev", "/proc/sys/net/core/somaxconn")
    groups, mounts, network, setting = in_pod("-c", READ, *files).stdout.splitlines()
    assert groups == Path(files[0]).read_text().strip().replace("\n", "#")
    assert "memory:/zstest-neighbour/a" in groups
    assert sorted(mounts.split("#")) == sorted(Path("/proc/1/mountinfo").read_text().splitlines())
    assert network.count("#") == Path("/proc/1/net/dev").read_text().strip().count("\n")
    assert setting == f"BLIND {files[3]}: {NO_NETWORK}"
    # Without the right to enter PID 1's cgroup namespace a path would be "/../zstest-neighbour/a": not told.
    refused = in_pod("-c", READ, files[0], without=["sys_admin"]).stdout.strip()
    assert refused == f"BLIND {files[0]}: {NO_CGROUP_NAMES}"
    hidden = in_pod("-c", READ, "/sys/devices/system/cpu/possible", submounts=False, without=["sys_ptrace"]).stdout
    assert NO_KERNEL_FILES.format(root="/host") in hidden


@pytest.mark.usefixtures("neighbour")
def test_samples_are_of_the_nodes_cgroups() -> None:
    """A sample has the cgroup's id, which is the inode of its folder."""
    text = """
import sys
from zombiescope.kernel.cgroup_ids import CgroupIds
from zombiescope.kernel.mounted_node import host_at
with CgroupIds(host_at("/host")) as ids:
    print(ids.path(int(sys.argv[1])))
"""
    inode = os.stat("/sys/fs/cgroup/unified/zstest-neighbour/a").st_ino
    for without in ([], ["sys_admin"]):
        assert in_pod("-c", text, str(inode), without=without).stdout == "/zstest-neighbour/a\n"


@pytest.mark.beside
def test_events_of_cgroups_are_recorded_where_the_node_has_tracefs() -> None:
    """Without the right to mount it: as in the chart's pod."""
    text = """
from zombiescope.core import Unreadable
from zombiescope.kernel.cgroup_events import watching
from zombiescope.kernel.mounted_node import host_at
try:
    with watching(0, host_at("/host")):
        print("watched")
except Unreadable as error:
    print(error)
"""
    also = "mount -t tracefs tracefs $new/host/sys/kernel/tracing"
    assert in_pod("-c", text, also=also, without=["sys_admin"]).stdout == "watched\n"
    assert "mount -t tracefs" in in_pod("-c", text, without=["sys_admin"]).stdout


@pytest.mark.beside
def test_containers_are_those_of_the_nodes_runtime() -> None:
    text = """
from zombiescope.audit.containers import container, ids
from zombiescope.audit.stores import stores
from zombiescope.kernel.mounted_node import host_at
host = host_at("/host")
print([container(host, it, name).cgroup for it in stores(host) for name in ids(host, it)[0]])
"""
    store = "run/containerd/io.containerd.runtime.v2.task/k8s.io"
    also = "mount -t tmpfs tmpfs $new/host/run\n"
    for top, name in (("$new/host", "node"), ("$new", "decoy")):
        bundle = json.dumps({"linux": {"cgroupsPath": f"/kubepods/{name}"}})
        also += f"mkdir -p {top}/{store}/{name}; printf '{bundle}' > {top}/{store}/{name}/config.json\n"
    assert in_pod("-c", text, also=also).stdout == "['/kubepods/node']\n"


@pytest.mark.beside
def test_links_of_the_node_lead_to_its_files() -> None:
    """The container has a file of the same path that says something else."""
    unit = "[Service]\\nExecStart=/bin/true\\nRestart={}\\nRestartSec=7\\n"
    linked = f"""
mount -t tmpfs tmpfs $new/host/run
mkdir -p $new/host/run/systemd/system $new/host/run/zstest $new/run/zstest
printf '{unit.format("on-failure")}' > $new/host/run/zstest/real.service
printf '{unit.format("always")}' > $new/run/zstest/real.service
ln -s /run/zstest/real.service $new/host/run/systemd/system/zstest-linked.service
ln -s /run/zstest $new/host/run/folder
"""
    shape = audit(asked("audit --all --format json --host /host", also=linked))
    (found,) = [it for it in shape["units"] if it["unit"] == "zstest-linked.service"]
    assert found["restart_policy"]["restart"] == "on-failure"
    assert "on-failure" in in_pod("-c", READ, "/run/folder/real.service", also=linked).stdout


@pytest.mark.beside
@pytest.mark.usefixtures("can_boot")
def test_the_bus_of_the_node_is_asked(tmp_path: Path) -> None:
    unit = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep 1000\n"
    with booted({"zstest-asked.service": unit}, binds={os.path.dirname(BUS): str(tmp_path)}):
        place = "$new/host/run/dbus"
        also = f"mount -t tmpfs tmpfs $new/host/run; mkdir -p {place}; mount --bind {tmp_path} {place}"
        done = asked("diagnose --seconds 0 --hz 0 --format json --host /host", also=also)
        shape = audit(asked("audit --all --format json --host /host", also=also))
    assert json.loads(done.stdout)["verdicts"]
    states = {it["unit"]: it["state"] for it in shape["units"]}
    assert states["zstest-asked.service"] == "active (running)"
