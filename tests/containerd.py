"""containerd's files of one container, in a /var/lib that only one process sees."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path


class Containerd:
    """`through`: the beginning of a command line, with which that process is started; root only."""

    def __init__(self, folder: Path) -> None:
        self.name = "ab" * 32
        self._status = folder / "lib/containerd/io.containerd.grpc.v1.cri/containers" / self.name / "status"
        self._status.parent.mkdir(parents=True)
        own = f'mount --bind {folder}/lib /var/lib && exec "$@"'
        self.through = ("unshare", "--mount", "--propagation=private", "sh", "-c", own, "sh")

    def ends(self, code: int) -> None:
        """It ends now, with this exit code; as containerd writes it: whole, in the place of the last one."""
        told = {"ExitCode": code, "StartedAt": time.time_ns() - 10**9, "FinishedAt": time.time_ns(), "Reason": ""}
        new = self._status.with_name("new")
        new.write_text(json.dumps(told))
        os.replace(new, self._status)
