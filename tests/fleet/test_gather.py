"""A real recording becomes a node's tables: with what `diagnose` finds in it, once however often it is gathered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.fleet.fleets import opened

from zombiescope.__main__ import main
from zombiescope.fleet import store
from zombiescope.fleet.gather import gather
from zombiescope.fleet.hour_parcel import SETTLES
from zombiescope.fleet.hours import INCOMING

RECORDINGS = Path(__file__).parent.parent / "data" / "recordings"


def test_a_recording_is_gathered_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("node,zone,pool\nn,us-east-1a,train\n")
    command = ["fleet", "gather", "--store", str(tmp_path / "s"), str(RECORDINGS), "--labels", str(labels)]
    for sent in (1, 0):
        assert main([*command, "--label", "image=ami-1", "--format", "json"]) == 0
        said = json.loads(capsys.readouterr().out)[0]
        assert (said["hours"], said["already there"]) == (sent, 1 - sent)
    fleet = opened(tmp_path / "s")
    assert fleet.rows("SELECT name, zone, image, kernel, cores, labels['pool'] FROM node_hours") == [
        ("n", "us-east-1a", "ami-1", "6.18", 8, "train")
    ]
    roots = fleet.rows("SELECT sign, subject, waited_cores > 0.5, held_bytes > 9e8 FROM findings WHERE role = 'root'")
    assert roots == [("crash_looping_unit", "unit:ecs.service", True, True)]
    assert fleet.rows("SELECT DISTINCT kind, subject FROM events") == [("driver_reset", "nic:eth0")]
    assert fleet.rows("SELECT active, sum(restarts) FROM units GROUP BY 1") == [(True, 120)]
    assert fleet.rows("SELECT outcome FROM jobs") == [("failed",)]
    assert fleet.rows("SELECT max(core_system_max) >= 0.9, max(memcg_dying), count(*) FROM metrics")[0] == (
        True,
        68380,
        12,
    )
    assert fleet.rows("SELECT DISTINCT cpu FROM hot_cores") == [(3,)]
    walked = "SELECT kernel, total_seconds > 10 FROM functions JOIN function_names USING (function) WHERE name = ?"
    assert fleet.rows(walked, ["css_rstat_flush"]) == [(True, True)]


def test_an_hour_that_goes_on_is_left_for_later(tmp_path: Path) -> None:
    """It counts once, so it has to be whole."""
    kept = store.opened(str(tmp_path / "s"))
    over = 1_794_002_400 + SETTLES  # the recording is of 21:20, that hour ends at 22:00
    for until, hours, there in ((over - 1, 0, 0), (over, 1, 0), (over, 0, 1)):
        done = gather(kept, [str(RECORDINGS)], [], "", lambda _: None, until)
        assert [(it.hours, it.there, it.why) for it in done] == [(hours, there, "")]
    assert sum(1 for _ in kept.keys(INCOMING)) == 1


def test_a_damaged_recording_costs_only_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(RECORDINGS / "incident-0.1", tmp_path / "r" / "good")
    (tmp_path / "r" / "bad").mkdir()
    (tmp_path / "r" / "bad" / "meta.json").write_text("{")
    assert main(["fleet", "gather", "--store", str(tmp_path / "s"), str(tmp_path / "r"), "--format", "json"]) == 3
    said = {Path(it["recording"]).name: it["why not"] for it in json.loads(capsys.readouterr().out)}
    assert said["good"] == "" and "not valid JSON" in said["bad"]
    assert opened(tmp_path / "s").rows("SELECT count(*) FROM nodes") == [(1,)]


def test_without_kubectl_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["fleet", "gather", "--kubernetes", "--store", str(tmp_path)]) == 2
    assert "kubectl is not installed" in capsys.readouterr().err
    assert main(["fleet", "gather", "--store", str(tmp_path)]) == 2
    assert "give recordings, nodes with an agent, or --kubernetes" in capsys.readouterr().err
