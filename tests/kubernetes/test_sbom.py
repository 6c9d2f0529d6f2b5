"""The list of an image's parts: of a root made here, with odd packages; whole, and the same each time."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import PROJECT

SCRIPT = PROJECT / "deploy" / "image" / "sbom.py"
STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: text
 with a line that says Package: no

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: unpacked
Status: install ok unpacked
Architecture: all
Version: 1:2.0~rc1
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    packages = tmp_path / "opt/zombiescope/lib/python3.11/site-packages"
    for name, more in (("zombiescope", "License-Expression: Apache-2.0"), ("Odd_Name.x", "License: MIT")):
        folder = packages / f"{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{more}\n")
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(STATUS)
    return tmp_path


def listed(root: Path) -> str:
    command = [sys.executable, "-I", "-", str(root)]
    with SCRIPT.open() as script:
        return subprocess.run(command, stdin=script, capture_output=True, text=True, check=True, timeout=60).stdout


def test_all_parts_and_nothing_else(root: Path) -> None:
    bill = json.loads(listed(root))
    assert [it["purl"] for it in bill["components"]] == [
        "pkg:pypi/odd-name-x@1.0",
        "pkg:pypi/zombiescope@1.0",
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64",
        "pkg:deb/debian/unpacked@1%3A2.0~rc1?arch=all",
    ]
    assert bill["components"][1]["licenses"] == [{"expression": "Apache-2.0"}]
    assert bill["components"][0]["licenses"] == [{"license": {"name": "MIT"}}]
    assert bill["bomFormat"] == "CycloneDX" and bill["metadata"]["component"]["version"] == "1.0"
    refs = [it["bom-ref"] for it in bill["components"]]
    assert len(set(refs)) == len(refs) and bill["dependencies"][0]["dependsOn"] == refs


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="not a Debian")
def test_as_many_debian_packages_as_dpkg_says(root: Path) -> None:
    """Of this machine, from the list that dpkg itself reads."""
    shutil.copy("/var/lib/dpkg/status", root / "var/lib/dpkg/status")
    debian = {(it["name"], it["version"]) for it in json.loads(listed(root))["components"] if "pkg:deb" in it["purl"]}
    form = "${Package} ${Version} ${db:Status-Status}\\n"
    said = subprocess.run(["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True, timeout=60)
    there = [line.split() for line in said.stdout.splitlines()]
    assert debian == {(name, version) for name, version, state in there if state != "config-files"} and debian


def test_without_a_list_of_system_packages_that_is_said(root: Path) -> None:
    (root / "var/lib/dpkg/status").unlink()
    assert "no list" in json.loads(listed(root))["metadata"]["properties"][0]["value"]


def test_the_same_root_makes_the_same_bytes_and_another_does_not(root: Path) -> None:
    first = listed(root)
    assert listed(root) == first
    (root / "var/lib/dpkg/status").write_text(STATUS.replace("2.36", "2.37"))
    assert json.loads(listed(root))["serialNumber"] != json.loads(first)["serialNumber"]


def test_an_empty_root_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no Python package"):
        runpy.run_path(str(SCRIPT))["bill"](tmp_path)
