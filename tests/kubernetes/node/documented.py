"""The commands of docs/kubernetes.md, run as they stand there, and which of them were run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import PROJECT
from tests.kubernetes.binaries import cache_folder

PAGE = PROJECT / "docs" / "kubernetes.md"
_COMMAND = re.compile(r"    ((?:make|helm|kubectl|zombiescope) .+)")
_REMARK = re.compile(r"\s+#.*")


def commands(page: str) -> list[str]:
    """Those of its code blocks, without the remarks behind them."""
    found = (_COMMAND.fullmatch(line) for line in page.splitlines())
    return [_REMARK.sub("", it[1]).strip() for it in found if it]


@dataclass
class Documented:
    """`place`: where a reader's own names stand, such as NODE, and what they are here."""

    kubeconfig: Path
    home: Path
    place: Mapping[str, str]
    every: list[str] = field(default_factory=lambda: commands(PAGE.read_text()))
    done: set[str] = field(default_factory=set)

    def named(self, beginning: str) -> str:
        """The one command that begins so, with what stands here for the reader's names; it counts as run."""
        found = [it for it in self.every if it == beginning] or [it for it in self.every if it.startswith(beginning)]
        assert len(found) == 1, f"{beginning!r}: {found}"
        self.done.add(found[0])
        words = found[0]
        for name, value in self.place.items():
            words = words.replace(name, value)
        return words

    def run(self, beginning: str, *, seconds: float = 240.0, expect: int | None = 0) -> str:
        """By a shell in the project's folder, as a reader would; what it printed."""
        with self.started(beginning) as running:
            try:
                out, complaint = running.communicate(timeout=seconds)
            finally:
                running.kill()
        assert expect is None or running.returncode == expect, out + complaint
        return out

    @property
    def environment(self) -> dict[str, str]:
        """In which kubectl is found, with our plugin, and asks this cluster."""
        path = f"{Path(sys.executable).parent}:{cache_folder() / 'bin'}:{os.environ['PATH']}"
        own = {"PATH": path, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home), "BROWSER": "true"}
        return os.environ | own

    def started(self, beginning: str) -> subprocess.Popen[str]:
        """exec: a signal reaches the command itself."""
        return subprocess.Popen(
            ["bash", "-c", f"exec {self.named(beginning)}"],
            cwd=PROJECT,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
