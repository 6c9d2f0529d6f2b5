"""examples/own-sign as a user has it: pip install, and its sign, law and agent are at work."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import PROJECT, Run
from tests.nodes import QUIET

EXAMPLE = PROJECT / "examples" / "own-sign"


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    shutil.copytree(EXAMPLE, source)  # a build may write beside what it builds
    # Where the build's tool is at hand nothing is fetched for it.
    how = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    argv = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        *how,
        "--target",
        str(folder / "site"),
        str(source),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    paths = [str(folder / "site"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": ":".join(filter(None, paths))}


def test_the_sign_is_explained_and_the_law_is_on_the_map(env: dict[str, str], zombiescope: Run) -> None:
    words = zombiescope("explain", "low_memory", expect=0, env=env).stdout
    assert "FULL = 0.97" in words and "low_memory_to_direct_reclaim" in words
    laws = json.loads(zombiescope("explain", "--map", "--format", "json", expect=0, env=env).stdout)["laws"]
    assert {"cause": "low_memory", "effect": "direct_reclaim", "law": "low_memory_to_direct_reclaim"} in laws


@pytest.mark.parametrize(("available", "state"), [(None, "clear"), (100_000, "found")])
def test_the_sign_at_work(
    available: int | None, state: str, env: dict[str, str], zombiescope: Run, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    shutil.copytree(QUIET, root)
    if available is not None:
        meminfo = root / "proc" / "meminfo"
        meminfo.write_text(re.sub(r"MemAvailable:.*", f"MemAvailable: {available} kB", meminfo.read_text()))
    verdicts = json.loads(zombiescope("diagnose", str(root), "--format", "json", env=env).stdout)["verdicts"]
    states = {it["sign"]: it["state"] for it in verdicts}
    assert states["low_memory"] == state and "broken" not in states.values()


def test_the_agent_is_known(env: dict[str, str], zombiescope: Run, tmp_path: Path) -> None:
    unit = tmp_path / "etc" / "systemd" / "system" / "acme-shipper.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/usr/bin/shipper\n")
    shape = json.loads(zombiescope("audit", "--root", str(tmp_path), "--format", "json", env=env).stdout)
    assert [(it["unit"], it["agent"]) for it in shape["units"]] == [("acme-shipper.service", "acme-shipper")]
