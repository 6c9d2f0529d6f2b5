"""The walk through the incident in docs/fleet.md, and the notebook: every command of them, on a smaller fleet."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.fleets import made

from zombiescope.__main__ import main

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "fleet.md"
WORST = "zone=us-east-1a"  # where jobs fail, as the page says; another one in a smaller fleet


SMALLER = {"--nodes": "500", "--hours": "6", "--every": "300"}


@pytest.mark.parametrize("smaller", [SMALLER, pytest.param({}, marks=pytest.mark.long, id="as written")])
def test_the_five_commands_lead_to_the_unit(
    smaller: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    story = PAGE.read_text().partition("## The page")[0]
    make, *asked = [shlex.split(it)[1:] for it in re.findall(r"^ {4,}(zombiescope .*)$", story, re.MULTILINE)]
    assert make[:2] == ["lab", "fleet"] and len(asked) == 5
    assert main([*make, *(word for option in smaller.items() for word in option)]) == 0
    worst = json.loads(Path("fleet/truth.json").read_text())["confounders"][0]
    assert smaller or worst == WORST
    said = {}
    for words in asked:
        assert main(words) == 1
        said[words[1]] = "".join(capsys.readouterr())
    assert "odds to fail" in said["jobs"]
    zones = [it.split("\t") for it in said["jobs"].splitlines() if it.startswith("zone=")]
    assert zones[0][0] == worst and float(zones[0][3]) < float(zones[1][3]), "the worst first, and one stands out"
    assert "crash_looping_unit\tunit:ecs.service" in said["status"]
    assert "unit:ecs.service=active" in said["compare"] and worst in said["compare"]
    assert "unit:ecs.service: inactive → active" in said["leaks"]
    assert "mem_cgroup_nr_lru_pages" in said["flame"]


def test_the_notebook_leads_to_the_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, truth = made(str(tmp_path), "incident", 600, 6, 7)
    monkeypatch.setenv("ZOMBIESCOPE_STORE", str(where))
    cells = json.loads((ROOT / "examples" / "fleet" / "incident.ipynb").read_text())["cells"]
    named: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "kept without answers: they are of whoever ran it last"
            exec("".join(cell["source"]), named)
    assert named["said"]["causes"][0]["factor"] == truth["causes"][0]
    assert f"zone={named['worst']}" in truth["confounders"]
    (off, nodes, ill), (on, others, sick) = named["running"]
    assert (off, on) == (False, True) and ill / nodes < 0.1 < 0.5 < sick / others
    assert len(named["fastest"]) == 5 and named["by_zone"].num_rows == 4


def test_the_lines_for_a_notebook_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(str(tmp_path), "incident", 60, 1, 7)[0].rename(tmp_path / "fleet")
    monkeypatch.chdir(tmp_path)
    lines = re.search(r"In a notebook, .*\n\n((?: {4}.*\n)+)", PAGE.read_text())
    assert lines
    *setup, last = [it.strip() for it in lines[1].splitlines()]
    named: dict[str, Any] = {}
    exec("\n".join(setup), named)
    assert eval(last, named).num_rows == 4
