"""The Python API: the documented example runs, answers are those of the command, and importing costs nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import zombiescope as zs
from zombiescope.core.errors import UserError

HERE = Path(__file__).parent
INCIDENT = HERE / "data" / "recordings" / "incident-0.1"


def test_the_documented_example_runs() -> None:
    page = (HERE.parent / "docs" / "python-api.md").read_text()
    first, second = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    known: dict[str, object] = {"folder": INCIDENT}
    exec(compile(first, "docs/python-api.md", "exec"), known)
    exec(compile(second, "docs/python-api.md", "exec"), known)
    case = known["case"]
    assert isinstance(case, zs.Diagnosis) and [it.sign for it in case.root_causes] == ["crash_looping_unit"]


def test_it_answers_as_the_command_does() -> None:
    command = [sys.executable, "-m", "zombiescope", "diagnose", str(INCIDENT), "--format", "json"]
    said = json.loads(subprocess.run(command, capture_output=True, check=False, text=True).stdout)
    case = zs.diagnose(zs.open(INCIDENT))
    assert case.to_dict() == said
    assert "PROBLEM  ecs.service" in case.to_text() and len(case.chains) == 2
    assert case.to_html().startswith("<!DOCTYPE html>") and "<iframe" in case._repr_html_()


def test_series_and_samples_are_tables() -> None:
    recording = zs.open(INCIDENT)
    assert recording.node == "n" and "cgroups_known" in recording.names
    known = recording.series("cgroups_known", "controller:memory")
    assert known.column_names == ["at", "subject", "value", "source", "text"] and known["value"][0].as_py() == 68_500
    samples = recording.samples()
    assert samples.num_rows == 1424 and samples["comm"][0].as_py() == "kubelet"
    assert samples["seconds"].to_numpy().sum() == pytest.approx(1424 / 49, rel=1e-6)
    start, _ = recording.span
    part = recording.samples(start.timestamp() + 30, start.timestamp() + 45, cpu=3)
    assert 0 < part.num_rows < 1424 and recording.samples(cpu=0).num_rows == 0


def test_mistakes_are_told_in_one_line() -> None:
    recording = zs.open(INCIDENT)
    for wrong in (
        lambda: recording.series("no_such_series"),
        lambda: recording.series("cgroups_known", to="excel"),
        lambda: zs.open("/does/not/exist"),
        lambda: zs.record(seconds=-1),
    ):
        with pytest.raises(UserError):
            wrong()


def test_importing_loads_nothing_else() -> None:
    code = "import sys, zombiescope; print(sorted(it for it in sys.modules if it.startswith('zombiescope')))"
    said = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "['zombiescope']"
    with pytest.raises(AttributeError, match="no_such_thing"):
        zs.no_such_thing  # noqa: B018
