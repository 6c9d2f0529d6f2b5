"""What the wheel has beside the code: the docs, and man pages and completion scripts, made by what is being packed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Shipped(BuildHookInterface):  # type: ignore[type-arg]
    """Written to a folder of its own, and packed from there: nothing is left in the source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # a clone: its user prints what he wants
            return
        self._folder = tempfile.TemporaryDirectory(prefix="zombiescope-shipped-")
        # Members from elsewhere do not belong in our package. No dependency of ours is needed, nor is here.
        env = {key: value for key, value in os.environ.items() if key != "ZOMBIESCOPE_PATH"}
        env |= {"PYTHONPATH": str(Path(self.root, "src")), "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([sys.executable, "-m", "zombiescope.cli._shipped", self._folder.name], env=env, check=True)
        build_data["shared_data"][f"{self._folder.name}/share"] = "share"
        docs = Path(self.root, "docs")
        for page in sorted((*docs.rglob("*.md"), *docs.glob("*.svg"))):  # screenshots are left out: a megabyte
            build_data["shared_data"][str(page)] = f"share/doc/zombiescope/{page.relative_to(docs).as_posix()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if version != "editable":
            self._folder.cleanup()
