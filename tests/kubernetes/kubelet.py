"""A real node of a test cluster: containerd and the kubelet, in the namespaces that `apart` has made."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.apart import NODE, place
from tests.kubernetes.binaries import cache_folder, program
from tests.kubernetes.cluster import Cluster, ended, started

from zombiescope.core import Host
from zombiescope.kernel.mounts import cgroup_mounts

NAME = "n1"  # of the node
PAUSE = "localhost/pause:1"  # holds a pod's namespaces; not the image of anything else
SOCKET = "/run/containerd/containerd.sock"
PATIENCE = 120.0  # seconds for Ready: 25 on an idle machine
_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_CONTAINERD = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{programs}"
    conf_dir = "{folder}"
"""
_NETWORK = {
    "cniVersion": "0.3.1",
    "name": "pods",
    "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.78.0.0/24"}]]}}],
}
_NETWORK["plugins"][0]["ipam"]["routes"] = [{"dst": "0.0.0.0/0"}]  # type: ignore[index]


@dataclass
class Kubelet:
    cluster: Cluster
    process: subprocess.Popen[bytes]
    folder: Path

    def ctr(self, *argv: str) -> str:
        command = [program("ctr"), "--address", SOCKET, "--namespace", "k8s.io", *argv]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def memory(self, uid: str) -> dict[str, int]:
        """Bytes of a pod as the kernel counts them, and how often it had to kill there."""
        found = place()
        assert found is not None
        tops = [Path(mount.path, found[1]) for mount in cgroup_mounts(Host()) if "memory" in mount.controllers]
        (folder,) = [it for top in tops for it in top.glob(f"kubepods/**/pod{uid}")]
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        kills = [int(it) for file in folder.glob("*/memory.oom_control") for it in _KILLS.findall(file.read_text())]
        return {
            "peak": int((folder / "memory.max_usage_in_bytes").read_text()),
            "limit": int((folder / "memory.limit_in_bytes").read_text()),
            "rss": int(stat["total_rss"]),
            "oom_kills": sum(kills),
        }

    def ready(self) -> bool:
        found = self.cluster.kubectl("get", "node", NAME, "-o", "json", expect=None)
        told = json.loads(found.stdout)["status"].get("conditions", []) if found.returncode == 0 else []
        return any(it["type"] == "Ready" and it["status"] == "True" for it in told)


@contextmanager
def node(cluster: Cluster, images: Sequence[Path]) -> Iterator[Kubelet]:
    """Ready, with these images (archives as `podman save` writes them)."""
    found = place()
    assert found is not None
    folder, group = found
    containerd, runc, kubelet = program("containerd"), program("runc"), program("kubelet")
    (folder / "network").mkdir()
    (folder / "network" / "10-pods.conflist").write_text(json.dumps(_NETWORK))
    settings = folder / "containerd.toml"
    settings.write_text(_CONTAINERD.format(pause=PAUSE, programs=cache_folder() / "bin", folder=folder / "network"))
    (folder / "kubelet.json").write_text(json.dumps(_kubelet_settings(f"/{group}", folder)))
    with ExitStack() as ends:
        path = {"PATH": f"{Path(runc).parent}:{os.environ['PATH']}"}
        runtime = started(folder / "containerd.log", containerd, "--config", str(settings), env=path)
        ends.callback(ended, runtime)
        _until(lambda: os.path.exists(SOCKET), folder / "containerd.log")
        agent = started(
            folder / "kubelet.log",
            *(kubelet, f"--config={folder}/kubelet.json", f"--kubeconfig={cluster.kubeconfig}"),
            *("--container-runtime=remote", f"--container-runtime-endpoint=unix://{SOCKET}"),
            *(f"--hostname-override={NAME}", f"--node-ip={NODE}"),
            env=path,
        )
        ends.callback(ended, agent)
        one = Kubelet(cluster, agent, folder)
        for image in images:
            one.ctr("images", "import", str(image))
        _until(one.ready, folder / "kubelet.log")
        yield one


def _kubelet_settings(group: str, folder: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": group,
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": [],
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "failSwapOn": False,
        "protectKernelDefaults": True,
        "hairpinMode": "none",
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "/dev/null",
        "volumePluginDir": str(folder / "volumes"),
        "nodeStatusUpdateFrequency": "4s",
    }


def _until(happened: object, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():  # type: ignore[operator]
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        time.sleep(0.3)
