"""Processes that are only called conmon or containerd-shim: what they name is not read, and owns nobody's cgroup."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.naming.programs import needs_root

from zombiescope.audit.stores import stores
from zombiescope.core import Host, Reading
from zombiescope.probes import containers

pytestmark = pytest.mark.beside

ID = "e11e" * 16
VICTIM = "/system.slice/zstest-victim.service"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of podman's shape, whose container claims the cgroup of somebody else."""
    needs_root()
    bundle = tmp_path / "evil-containers" / ID / "userdata"
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps({"linux": {"cgroupsPath": VICTIM}}))
    shutil.copy("/bin/sh", tmp_path / "conmon")
    return bundle


@contextmanager
def waiting(*command: str | Path, cwd: Path | None = None) -> Iterator[None]:
    """A process, or what it starts, that has begun and waits."""
    with subprocess.Popen(
        [*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=cwd, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        try:
            yield
        finally:
            process.communicate()


def believed(store: Path) -> bool:
    """Whether the store is read, and the container in it counted as the owner of the victim's cgroup."""
    host = Host()
    listed = str(store.parent.parent) in [it.path for it in stores(host)]
    told = [it for it in containers.read(host) if isinstance(it, Reading) and it.subject == f"cgroup:{VICTIM}"]
    assert bool(told) == listed
    return listed


WAITS = ("-c", "echo begun; read x")


def test_conmon_of_the_host_is_believed(store: Path, tmp_path: Path) -> None:
    """The counter-proof: the same program, run by root on the host itself."""
    with waiting(tmp_path / "conmon", *WAITS, "-b", store):
        assert believed(store)


def test_conmon_in_a_container_is_not(store: Path, tmp_path: Path) -> None:
    """Root in a container (pid and mount namespaces of its own) runs a program called conmon that names a store."""
    with waiting("unshare", "-pmf", tmp_path / "conmon", *WAITS, "-b", store):
        assert not believed(store)


def test_conmon_in_a_mount_namespace_is_not(store: Path, tmp_path: Path) -> None:
    """The same with hostPID: only its files are its own, and with them what its executable is called."""
    with waiting("unshare", "-m", tmp_path / "conmon", *WAITS, "-b", store):
        assert not believed(store)


def test_a_process_that_calls_itself_conmon_is_not(store: Path) -> None:
    """Another program of root that was given the name (prctl), as one that is broken into may give itself."""
    rename = "import ctypes; ctypes.CDLL(None).prctl(15, b'conmon'); print('begun', flush=True); input()"
    with waiting(shutil.which("python3") or "python3", "-c", rename, "-b", store):
        assert not believed(store)


def test_an_executable_that_others_may_write_is_not(store: Path, tmp_path: Path) -> None:
    """A program called conmon that another user could have replaced."""
    (tmp_path / "conmon").chmod(0o777)
    with waiting(tmp_path / "conmon", *WAITS, "-b", store):
        assert not believed(store)


def test_a_shim_in_a_container_is_not(tmp_path: Path) -> None:
    """A shim by name, whose working folder is a bundle of its own making."""
    needs_root()
    bundle = tmp_path / "io.containerd.runtime.v2.task" / "k8s.io" / ID
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps({"linux": {"cgroupsPath": VICTIM}}))
    shim = tmp_path / "containerd-shim-runc-v2"
    shutil.copy("/bin/sh", shim)
    path = str(bundle.parent)
    with waiting(shim, *WAITS, cwd=bundle):
        assert path in [it.path for it in stores(Host())]
    with waiting("unshare", "-pmf", shim, *WAITS, cwd=bundle):
        assert path not in [it.path for it in stores(Host())]
