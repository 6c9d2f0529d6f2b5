"""Which of Ray's processes is a node, and where its logs are."""

from __future__ import annotations

from pathlib import Path

from zombiescope.audit.ray_sessions import RayNode, sessions
from zombiescope.core import Host


def process(root: Path, pid: int, comm: str, *options: str) -> None:
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True)
    (folder / "comm").write_text(f"{comm}\n")
    (folder / "cmdline").write_text("\0".join((comm, *options)) + "\0")
    (folder / "cgroup").write_text(f"0::/pods/{pid}\n")
    (folder / "root/logs").mkdir(parents=True)


def test_a_node_is_a_raylet_with_a_number(tmp_path: Path) -> None:
    process(tmp_path, 7, "raylet", "--node_id=a=b", "--log_dir=/logs", "--node_ip_address=10.0.0.7", "-x=1", "--y")
    process(tmp_path, 8, "gcs_server", "--node_id=c", "--log_dir=/logs")
    process(tmp_path, 9, "raylet", "--log_dir=/logs")
    process(tmp_path, 10, "raylet", "--node_id=d", "--log_dir=/nowhere")
    found = {it.logs.shown: it.nodes for it in sessions(Host(str(tmp_path), live=False)).found}
    assert found == {
        "/proc/7/root/logs": [RayNode(id="a=b", pid=7, cgroup="/pods/7", address="10.0.0.7")],
        "/proc/8/root/logs": [],
        "/proc/9/root/logs": [],
    }
