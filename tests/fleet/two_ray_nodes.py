"""Questions to a fleet, asked here and of a Ray cluster of two nodes; tests/fleet/test_ray.py runs it in namespaces.

python two_ray_nodes.py STORE      prints a line for each question: same or other, and how many workers were killed
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import time
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from zombiescope.__main__ import main

QUESTIONS = {
    "flame": ("flame",),
    "features": ("compare", "--sick", "dying_per_hour > 60"),
}
KILLS = 2  # a task is tried five times


def asked(store: str, *words: str) -> Any:
    out = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with redirect_stdout(out):
        code = main(["fleet", words[0], "--store", store, "--format", "json", *words[1:]])
    out.seek(0)
    return code, json.load(out)


class Killer(threading.Thread):
    """Kills workers that are at a task of ours, as the kernel does when memory is short."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.killed: list[int] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set() and len(self.killed) < KILLS:
            for folder in Path("/proc").iterdir():
                if folder.name.isdecimal() and int(folder.name) not in self.killed and _works(folder):
                    with suppress(ProcessLookupError):
                        os.kill(int(folder.name), signal.SIGKILL)
                        self.killed.append(int(folder.name))
                    break
            time.sleep(0.001)


def _works(folder: Path) -> bool:
    with suppress(OSError):
        return (folder / "cmdline").read_bytes().startswith(b"ray::answered_part")
    return False


def ask_all(store: str) -> None:
    from ray.cluster_utils import Cluster  # not where the tests are read, which may be without Ray

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.add_node(**node)
    for name, words in QUESTIONS.items():
        here, there = asked(store, *words), asked(store, *words, "--ray", cluster.address)
        print("asked", name, "same" if here == there else "other", flush=True)
        killer = Killer()
        killer.start()
        again = asked(store, *words, "--ray", cluster.address)
        killer.over.set()
        killer.join()
        print("killed", name, "same" if here == again else "other", len(killer.killed), flush=True)


if __name__ == "__main__":
    ask_all(sys.argv[1])
