"""Recordings of earlier versions open, and give the verdicts that those versions gave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from zombiescope.diagnosis.examine import examine
from zombiescope.recorder.replay import opened

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"


@pytest.mark.parametrize("name", sorted(it.name for it in RECORDINGS.iterdir() if it.is_dir()))
def test_the_same_verdicts(name: str, tmp_path: Path) -> None:
    recording = opened(str(shutil.copytree(RECORDINGS / name, tmp_path / name)))
    case = examine(recording.timeline())
    before = json.loads((RECORDINGS / f"{name}.verdicts.json").read_text())
    assert [[it.sign, it.subject] for it in case.root_causes] == before["root_causes"]
    assert [[[it.sign, it.subject] for it in chain] for chain in case.chains] == before["chains"]
    states = {it.sign: it.state for it in case.verdicts if it.sign in before["verdicts"]}
    assert states == before["verdicts"] and not recording.damage
