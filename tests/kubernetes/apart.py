"""Run a command as if on a node of its own: network, processes and mounts apart from this machine's.

    python -m tests.kubernetes.apart -m pytest tests/kubernetes/node

PID 1 of a pid namespace ends everything when it ends, containers too. What is written to /var and /run stays in a
folder that is removed. Cgroups are the machine's own, below one folder that is removed as well. Root only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from zombiescope.lab._scenario import name_for
from zombiescope.lab._systemd import remove_cgroups

APART = "ZOMBIESCOPE_TEST_NODE"  # set where this has been done: the folder, and the name of the cgroups
NODE, SERVICE = "10.77.0.1", "10.0.0.1"  # addresses: the node's, and that of the service "kubernetes"
_NAMESPACES = ("--mount", "--propagation=private", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
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
            remove_cgroups(name)


def place(environment: Mapping[str, str] = os.environ) -> tuple[Path, str] | None:
    """The folder and the name of the cgroups, if we are on such a node."""
    folder, colon, name = environment.get(APART, "").partition(":")
    return (Path(folder), name) if colon else None


def _inside(argv: list[str]) -> int:
    """PID 1: set up, start the command, and wait for it and for whoever lost its parent."""
    found = place()
    assert found is not None and os.getpid() == 1
    _mounts(found[0])
    for words in ("link set lo up", f"addr add {SERVICE}/32 dev lo", "link add zs0 type veth peer name zs1"):
        _done("ip", *words.split())
    for words in ("link set zs1 up", f"addr add {NODE}/24 dev zs0", "link set zs0 up", "route add default dev zs0"):
        _done("ip", *words.split())
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # of this network namespace alone
    child = subprocess.Popen([sys.executable, *argv])
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status)


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
