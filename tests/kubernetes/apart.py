"""Run a command as if on a node of its own: network and mounts apart from this machine's.

    python -m tests.kubernetes.apart -m pytest tests/kubernetes/node

What is written to /var and /run stays in a folder that is removed. Processes and cgroups are the machine's own, as on a
node: all that is started lies below one cgroup, so all of it can be ended, containers too. Root only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from zombiescope.core import Host
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab._scenario import name_for
from zombiescope.lab._systemd import remove_cgroups

APART = "ZOMBIESCOPE_TEST_NODE"  # set where this has been done: the folder, and the name of the cgroups
PATIENCE = 60.0  # seconds for what was killed to end
NODE, SERVICE = "10.77.0.1", "10.0.0.1"  # addresses: the node's, and that of the service "kubernetes"
_NAMESPACES = ("--mount", "--propagation=private", "--net")
# The kubelet checks these and would set them for the whole machine: files of ours stand in.
_SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}


def run(argv: list[str]) -> int:
    """Its exit code."""
    name = name_for("cluster")
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        inside = [sys.executable, "-m", __spec__.name, "--inside", *argv]
        try:
            env = os.environ | {APART: f"{folder}:{name}"}
            return subprocess.run(["unshare", *_NAMESPACES, *inside], env=env, check=False).returncode
        finally:
            _end_all(name)
            remove_cgroups(name)


def _end_all(name: str) -> None:
    """Whoever is left below the cgroup: containers and their supervisors outlive those who started them."""
    deadline = time.monotonic() + PATIENCE
    while left := [pid for folder in _cgroups(name) for pid in _pids_below(folder)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{left} do not end")
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def _pids_below(top: Path) -> list[int]:
    found = []
    for folder, _, _ in os.walk(top):
        with suppress(OSError):
            found += [int(pid) for pid in Path(folder, "cgroup.procs").read_text().split()]
    return found


def _cgroups(name: str) -> list[Path]:
    return [Path(mount.path, name) for mount in cgroup_mounts(Host())]


def place(environment: Mapping[str, str] = os.environ) -> tuple[Path, str] | None:
    """The folder and the name of the cgroups, if we are on such a node."""
    folder, colon, name = environment.get(APART, "").partition(":")
    return (Path(folder), name) if colon else None


def _inside(argv: list[str]) -> int:
    found = place()
    assert found is not None
    _cgroup(found[1])
    _mounts(found[0])
    for words in ("link set lo up", f"addr add {SERVICE}/32 dev lo", "link add zs0 type veth peer name zs1"):
        _done("ip", *words.split())
    for words in ("link set zs1 up", f"addr add {NODE}/24 dev zs0", "link set zs0 up", "route add default dev zs0"):
        _done("ip", *words.split())
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # of this network namespace alone
    os.execv(sys.executable, [sys.executable, *argv])


def _cgroup(name: str) -> None:
    """One in each hierarchy, for the kubelet; we ourselves in a folder of our own, as a v2 cgroup with others below it
    takes no processes. A new cpuset has no cores until it is told."""
    for top in _cgroups(name):
        for folder in (top, top / "own"):
            folder.mkdir()
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (folder / file).exists():
                    (folder / file).write_text((folder.parent / file).read_text())
        (top / "own" / "cgroup.procs").write_text(str(os.getpid()))


def _mounts(folder: Path) -> None:
    for number, (name, value) in enumerate(_SYSCTLS.items()):
        file = folder / f"sysctl-{number}"
        file.write_text(f"{value}\n")
        _done("mount", "--bind", str(file), f"/proc/sys/{name}")
    for name in ("upper", "work", "containerd", "kubelet"):
        (folder / name).mkdir()
    layers = f"lowerdir=/var,upperdir={folder}/upper,workdir={folder}/work"
    _done("mount", "-t", "overlay", "-o", layers, "overlay", "/var")
    _done("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    _done("mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing")  # as systemd does on every node
    for name in ("containerd", "kubelet"):  # layers of containers cannot lie on an overlay
        os.makedirs(f"/var/lib/{name}", exist_ok=True)
        _done("mount", "--bind", str(folder / name), f"/var/lib/{name}")
    # Volumes that follow the node's mounts need shared ones; shared here with nobody else.
    _done("mount", "--make-rshared", "/")


def _done(*argv: str) -> None:
    subprocess.run(argv, check=True, timeout=60)


if __name__ == "__main__":
    rest = sys.argv[1:]
    sys.exit(_inside(rest[1:]) if rest[:1] == ["--inside"] else run(rest))
