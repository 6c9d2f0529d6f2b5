"""Schemas that others publish with their npm packages, fetched once a session by those tests that ask for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest
from tests.conftest import CANNOT


@lru_cache
def text_of(package: str, inside: str, instead: str) -> str:
    """What a file of a package says; where npm is not at hand the environment variable `instead` names a copy of it."""
    if path := os.environ.get(instead):
        return Path(path).read_text()
    if not shutil.which("npm"):
        pytest.skip(f"{CANNOT}{package} comes by npm, which is not here; or set {instead}")
    folder = Path(tempfile.mkdtemp(prefix="zombiescope-npm-"))
    try:
        done = subprocess.run(["npm", "pack", "--silent", package], cwd=folder, capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"{CANNOT}npm cannot fetch {package}; set {instead}")
        shutil.unpack_archive(next(folder.glob("*.tgz")), folder, filter="data")
        return (folder / "package" / inside).read_text()
    finally:
        shutil.rmtree(folder)
