"""checkov's rules for all that we ship for clusters: each finding is mended, or listed with its reason."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.conftest import CANNOT
from tests.kernels.packages import Lacking
from tests.kubernetes.binaries import checkov
from tests.kubernetes.test_manifests import ALL, DEPLOY, Objects, kustomized, templated

pytestmark = pytest.mark.long
DIGEST = ("--set", f"image.digest=sha256:{'0' * 64}")  # as a careful user installs it
Finding = tuple[str, str]  # rule and object


def found(objects: Objects, folder: Path) -> set[Finding]:
    """By a program of others that asks home for more rules unless it is told not to."""
    try:
        program = checkov()
    except Lacking as lacking:
        pytest.skip(CANNOT + str(lacking))
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects.values()))
    options = ("--framework", "kubernetes", "--skip-download", "--compact", "--quiet", "--output", "json")
    env = os.environ | {"HOME": str(folder)}
    done = subprocess.run(
        [program, *options, "--file", str(folder / "all.yaml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env=env,
        cwd=folder,
    )
    told = json.loads(done.stdout)
    assert told["summary"]["passed"] > 100 and not told["summary"]["parsing_errors"], done.stderr
    return {(it["check_id"], it["resource"]) for it in told["results"]["failed_checks"]}


def stays(where: str) -> set[Finding]:
    listed = tomllib.loads((DEPLOY / "checkov.toml").read_text())["stays"]
    assert all(it["why"] for it in listed)
    return {(it["check"], one) for it in listed if it.get("only", where) == where for one in it["objects"]}


def test_the_chart(tmp_path: Path) -> None:
    assert found(templated(*ALL, *DIGEST), tmp_path) == stays("helm")


def test_the_kustomize_base(tmp_path: Path) -> None:
    tests_of_helm = {it for it in stays("kustomize") if it[1].startswith("Pod.")}
    assert found(kustomized("remediate"), tmp_path) == stays("kustomize") - tests_of_helm


def test_a_new_finding_is_noticed(tmp_path: Path) -> None:
    objects = templated(*ALL, *DIGEST)
    pod = objects["DaemonSet", "zombiescope"]["spec"]["template"]["spec"]
    pod["containers"][0]["securityContext"]["privileged"] = True
    assert found(objects, tmp_path) - stays("helm") == {("CKV_K8S_16", "DaemonSet.zombiescope.zombiescope")}
