"""Real recordings among simulated nodes: `lab fleet --with`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.fleet.fleets import opened

from zombiescope.__main__ import main
from zombiescope.fleet.compare import compare
from zombiescope.fleet.simulated.fleet import START

RECORDING = Path(__file__).parent.parent / "data" / "recordings" / "incident-0.1"


def test_recordings_are_nodes_of_the_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recordings = [tmp_path / name for name in ("one", "two")]
    for it in recordings:
        shutil.copytree(RECORDING, it)
    asked = [word for it in recordings for word in ("--with", str(it))]
    command = ["lab", "fleet", str(tmp_path / "s"), "--nodes", "300", "--hours", "4", "--every", "300", *asked]
    assert main(command) == 0
    assert "300 nodes and 2 recorded, 4 hours" in capsys.readouterr().out
    truth = json.loads((tmp_path / "s" / "truth.json").read_text())
    assert truth["recorded"] == ["recorded-one", "recorded-two"]
    fleet = opened(tmp_path / "s")
    assert not fleet.refused and fleet.hours[0].start == START and len(fleet.hours) == 4
    rows = fleet.rows("SELECT name, cores, epoch(ts) FROM nodes WHERE labels['recorded'] = 'yes' ORDER BY 1")
    assert rows == [(name, 8, START + 3 * 3600) for name in truth["recorded"]]
    found = "SELECT sign, subject, count(*) FROM findings JOIN nodes USING (node_id) WHERE name LIKE 'recorded%'"
    assert ("crash_looping_unit", "unit:ecs.service", 2) in fleet.rows(f"{found} AND role = 'root' GROUP BY ALL")
    said = compare(fleet)
    assert said["causes"][0]["factor"] == "unit:ecs.service=active", "they are sick, and run the unit as the others do"


def test_what_is_no_recording_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["lab", "fleet", str(tmp_path / "s"), "--with", str(tmp_path / "empty")]) == 2
    assert str(tmp_path / "empty") in capsys.readouterr().err and not (tmp_path / "s").exists()
    again = ["--with", str(RECORDING)] * 2
    assert main(["lab", "fleet", str(tmp_path / "s"), *again]) == 2
    assert "two recordings of that name" in capsys.readouterr().err and not (tmp_path / "s").exists()
