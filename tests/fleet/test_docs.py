"""The walk through the incident in docs/fleet.md: every command of it, on a smaller fleet."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from zombiescope.__main__ import main

PAGE = Path(__file__).parent.parent.parent / "docs" / "fleet.md"


def test_the_five_commands_lead_to_the_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    story = PAGE.read_text().partition("## The page")[0]
    make, *asked = [shlex.split(it)[1:] for it in re.findall(r"^ {4,}(zombiescope .*)$", story, re.MULTILINE)]
    assert make[:2] == ["lab", "fleet"] and len(asked) == 5
    make[make.index("--nodes") + 1], make[make.index("--hours") + 1] = "500", "6"
    assert main([*make, "--every", "300"]) == 0
    said = {}
    for words in asked:
        assert main(words) == 1
        said[words[1]] = "".join(capsys.readouterr())
    assert "odds to fail" in said["jobs"]
    assert "crash_looping_unit\tunit:ecs.service" in said["status"]
    assert "unit:ecs.service=active" in said["compare"] and "zone=us-east-1" in said["compare"]
    assert "unit:ecs.service: inactive → active" in said["leaks"]
    assert "mem_cgroup_nr_lru_pages" in said["flame"]
