"""Images made here, without a registry: the base from Debian's packages, ours with `make image`, what holds pods."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import PROJECT
from tests.kernels.packages import Lacking
from tests.kubernetes.binaries import base_image, cache_folder, made

from zombiescope.lab._scenario import name_for
from zombiescope.lab._systemd import remove_cgroups

BASE, IMAGE, PAUSE = "localhost/zstest-base:1", "localhost/zombiescope:test", "localhost/pause:1"
GROUP = name_for("image")  # podman leaves the cgroups of its containers behind: below this one, which is removed
# podman's own limits need CAP_SYS_RESOURCE. A build takes its parent's cgroup itself: nothing else may be below that.
_LIMITS = f"--ulimit nofile=4096:4096 --ulimit nproc=4096:4096 --cgroup-parent /{GROUP}"
BUILT, LIMITS = f"{_LIMITS}/build", f"{_LIMITS}/run"


class Podman:
    """With a store of its own."""

    def __init__(self, folder: str) -> None:
        self.command = ["podman", "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--tmpdir", f"{folder}/tmp"]
        self.command += ["--cgroup-manager", "cgroupfs", "--runtime", "runc", "--storage-driver", "overlay"]
        self.command += ["--runtime-flag", f"root={folder}/runc", "--events-backend", "none"]

    def __call__(self, *argv: str, expect: int = 0) -> str:
        done = subprocess.run(
            [*self.command, *argv], capture_output=True, text=True, timeout=240, check=False, cwd=Path("/")
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout

    def build(self, *options: str) -> None:
        """As `make image` does it, on the base from here."""
        words = [f"PODMAN={' '.join(self.command)}", f"BUILD_OPTIONS={' '.join((BUILT, *options))}"]
        words.append(f"RUN_OPTIONS={LIMITS}")
        make = ["make", "image", *words, f"BASE={BASE}", f"IMAGE={IMAGE}"]
        built = subprocess.run(make, cwd=PROJECT, capture_output=True, text=True, timeout=600, check=False)
        assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]


@contextmanager
def podman() -> Iterator[Podman]:
    """With the base image; Lacking where it cannot be had."""
    if os.geteuid() != 0:
        raise Lacking("only root can build images here")
    if lacking := [it for it in ("podman", "runc") if shutil.which(it) is None]:
        raise Lacking(f"{' and '.join(lacking)} missing")
    tar = base_image()
    with tempfile.TemporaryDirectory(prefix="zombiescope-image-") as folder:
        run = Podman(folder)
        run("import", str(tar), BASE)
        try:
            yield run
        finally:
            run("rmi", "--all", "--force")
            remove_cgroups(GROUP)


def archives() -> list[Path]:
    """Our image, and the one that holds a pod's namespaces, as files that containerd imports; made once a source."""
    folder = cache_folder() / "images" / _source()
    files = [folder / "zombiescope.tar", folder / "pause.tar"]
    if not folder.exists():
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.parent.mkdir(parents=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made, podman() as run:
            print("building the image", flush=True)
            run.build()
            run("import", "--change", 'ENTRYPOINT ["/bin/sleep","infinity"]', str(base_image()), PAUSE)
            for image, file in zip((IMAGE, PAUSE), files, strict=True):
                run("save", "--format", "docker-archive", "--output", f"{made}/{file.name}", image)
            shutil.copytree(made, folder)
    return files


def built() -> list[Path]:
    """What `make test-cluster` has just built: where a test runs apart there is no network to build it."""
    found = sorted((cache_folder() / "images").glob("*/*.tar"))
    if len(found) != 2:
        raise Lacking("the image is not built yet: make test-cluster builds it")
    return found


def _source() -> str:
    """Of all that is in the image."""
    files = [PROJECT / "pyproject.toml", PROJECT / "deploy" / "Containerfile", base_image()]
    files += [it for it in (PROJECT / "src").rglob("*") if it.suffix in (".py", ".toml", ".js", ".css")]
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(str(file).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


if __name__ == "__main__":
    made(archives, "no image can be built here")
