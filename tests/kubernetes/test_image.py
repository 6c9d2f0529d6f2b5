"""The container image: built from a base made here, twice the same, and it runs with a read-only root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CANNOT, PROJECT

from zombiescope import __version__
from zombiescope.lab._scenario import missing

pytestmark = [pytest.mark.alone, pytest.mark.long]
BASE, IMAGE = "localhost/zstest-base:1", "localhost/zstest:1"
PACKAGES = "python3,python3-venv,python3-pip,coreutils,dash,base-files,ca-certificates"
LIMITS = "--ulimit nofile=4096:4096 --ulimit nproc=4096:4096"  # podman's own defaults need CAP_SYS_RESOURCE
LARGEST = 600 << 20  # bytes


@pytest.fixture(scope="module")
def podman() -> Iterator[list[str]]:
    if lacking := missing(("root", "podman", "runc")):
        pytest.skip(CANNOT + "; ".join(lacking))
    if shutil.which("mmdebstrap") is None:
        pytest.skip(CANNOT + "mmdebstrap is missing")
    with tempfile.TemporaryDirectory(prefix="zombiescope-image-") as folder:
        command = ["podman", "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--tmpdir", f"{folder}/tmp"]
        command += ["--cgroup-manager", "cgroupfs", "--runtime", "runc", "--storage-driver", "vfs"]
        command += ["--runtime-flag", f"root={folder}/runc", "--events-backend", "none"]
        tar = f"{folder}/base.tar"
        make = ["mmdebstrap", "--quiet", "--mode=root", "--variant=extract", f"--include={PACKAGES}", "bookworm", tar]
        subprocess.run(make, check=True, capture_output=True, timeout=240)
        subprocess.run([*command, "import", tar, BASE], check=True, capture_output=True, timeout=120)
        os.unlink(tar)
        yield command
        subprocess.run([*command, "rmi", "--all", "--force"], capture_output=True, timeout=120, check=False)


def test_the_image(podman: list[str]) -> None:
    options = [f"PODMAN={' '.join(podman)}", f"BUILD_OPTIONS={LIMITS} --no-cache", f"BASE={BASE}", f"IMAGE={IMAGE}"]
    made = []
    for _ in range(2):
        built = subprocess.run(["make", "image", *options], cwd=PROJECT, capture_output=True, text=True, timeout=600)
        assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
        made.append(_podman(podman, "image", "inspect", "--format", "{{.Id}} {{.Size}}", IMAGE).split())
    assert made[0][0] == made[1][0], "the same source makes the same image"
    print(f"{int(made[0][1]) / 1e6:.0f} MB")
    assert int(made[0][1]) < LARGEST
    run = ["run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", *LIMITS.split()]
    assert __version__ in _podman(podman, *run, "--user", "65534", IMAGE, "--version")
    assert "signs can look here" in _podman(podman, *run, "--tmpfs", "/tmp", IMAGE, "agent", "--check", expect=3)


def _podman(podman: list[str], *argv: str, expect: int = 0) -> str:
    done = subprocess.run([*podman, *argv], capture_output=True, text=True, timeout=240, check=False, cwd=Path("/"))
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout
