"""The recording that comes with the tool: small, of nobody's machine, and read by anybody."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from zombiescope.__main__ import main
from zombiescope.lab.pinterest import TRUTH
from zombiescope.places.sample import SAMPLE

FILES = sorted(Path(SAMPLE).rglob("*.*"))


def words() -> set[str]:
    """Every text in it."""
    found = set()
    for path in (it for it in FILES if it.suffix == ".arrows"):
        for column in pa.ipc.open_stream(path).read_all().itercolumns():
            if pa.types.is_dictionary(column.type):
                found |= {str(it) for chunk in column.chunks for it in chunk.dictionary.to_pylist()}
            elif pa.types.is_list(column.type):
                found |= {str(it) for row in column.to_pylist() for it in row}
    return found


def test_it_is_small_and_readable_by_everybody() -> None:
    assert sum(it.stat().st_size for it in FILES) < 1_500_000
    assert all(it.stat().st_mode & 0o004 for it in FILES)


def test_it_says_nothing_of_the_machine_it_was_made_on() -> None:
    meta = json.loads((Path(SAMPLE) / "meta.json").read_text())
    assert meta["node"] == "sample-node"
    assert not int(meta["boot_id"].replace("-", ""), 16)
    said = words()
    assert len(said) > 1000
    # What a probe would type itself (`ls /tmp/ray`) is the same on every machine.
    paths = {it for it in said if any(part in it for part in ("/home/", "/tmp/", "/work", ".venv"))}
    assert paths <= {"$ pgrep raylet; ls /tmp/ray"}
    assert platform.node() == "" or len(platform.node()) < 4 or not any(platform.node() in it for it in said)


def test_its_diagnosis_is_the_incident(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--sample", "--format", "json"]) == 1
    case = json.loads(capsys.readouterr().out)
    assert [it["sign"] for it in case["root_causes"]] == ["crash_looping_unit"]
    assert case["root_causes"][0]["subject"] == TRUTH.subject
    longest = [it["sign"] for it in case["chains"][0]]
    assert longest[0] == "crash_looping_unit" and longest[-1] == "driver_reset"
    assert set(longest) <= set(TRUTH.chain)
    assert case["root_causes"][0]["harm"]["broken"]["resets"] == 3


@pytest.mark.e2e
def test_anybody_can_look_at_it() -> None:
    """Also who is neither root nor the owner of anything, in a folder that cannot be written."""
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    argv = [sys.executable, "-m", "zombiescope", "diagnose", "--sample"]
    try:
        done = subprocess.run(argv, cwd="/", capture_output=True, text=True, check=False, **nobody)  # type: ignore[call-overload]
    except PermissionError:
        pytest.skip("nobody may not run this Python")
    assert done.returncode == 1, done.stderr
    assert "PROBLEM" in done.stdout
    assert "zombiescope fix --sample" in done.stdout


def test_its_plan_and_its_heatmap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", "--sample", "--ledger", str(tmp_path / "ledger")]) == 1
    assert "ecs.service" in capsys.readouterr().out
    assert main(["view", "--sample", "-o", str(tmp_path / "heat.json")]) == 0
    assert json.loads((tmp_path / "heat.json").read_text())["columns"]


@pytest.mark.parametrize(
    "argv", [("diagnose", "--sample", "./rec"), ("view", "./rec", "--sample"), ("fix", "--sample", "--recording", "x")]
)
def test_it_stands_alone(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert "--sample" in capsys.readouterr().err


def test_view_needs_something_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view"]) == 2
    assert "--sample" in capsys.readouterr().err
