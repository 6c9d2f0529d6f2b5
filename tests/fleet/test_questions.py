"""Every question of `fleet`, on simulated fleets whose answers are known, through the command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.fleets import made

from zombiescope.__main__ import main

Fleet = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return made(str(tmp_path_factory.mktemp("incident")), "incident", 600, 6, 7)


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return made(str(tmp_path_factory.mktemp("canary")), "canary", 500, 4, 3)


def _asked(capsys: pytest.CaptureFixture[str], fleet: Fleet, *words: str) -> tuple[int, Any]:
    code = main(["fleet", words[0], "--store", str(fleet[0]), "--format", "json", *words[1:]])
    return code, json.loads(capsys.readouterr().out)


def test_status_counts_and_prices(incident: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = _asked(capsys, incident, "status", "--price", "0.05")
    assert code == 1
    assert said["nodes"] == 600
    assert 0 < said["sick"] <= len(incident[1]["sick"])
    worst = said["root_causes"][0]
    assert (worst["sign"], worst["subject"]) == ("crash_looping_unit", "unit:ecs.service")
    assert worst["trend"] == "growing"  # half of the leaks begin within the range
    assert worst["money_a_day"] == pytest.approx(worst["core_hours_a_day"] * 0.05, abs=0.01)
    assert said["blind_signs"][0]["nodes"] == said["blind"] > 0


def test_compare_keeps_the_contract(incident: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = _asked(capsys, incident, "compare", "--sick", "driver_reset")
    assert code == 1
    cause = said["causes"][0]
    assert cause["factor"] == "unit:ecs.service=active"
    assert {
        "sick_with",
        "sick_without",
        "healthy_with",
        "odds_ratio",
        "p",
        "dose",
        "explains_away",
        "says",
    } <= cause.keys()
    low, best, high = cause["odds_ratio"]
    assert low < best < high and cause["p"] < 1e-10
    assert set(incident[1]["confounders"][:2]) <= set(cause["explains_away"])
    assert "each restart of ecs.service leaves 0.9" in cause["dose"]
    assert said["cannot_tell"] == []


def test_compare_takes_a_condition(incident: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = _asked(capsys, incident, "compare", "--sick", "dying_per_hour > 20")
    assert said["causes"][0]["factor"] == "unit:ecs.service=active"


def test_leaks_have_their_onset_and_what_changed(incident: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = _asked(capsys, incident, "leaks", "--least", "10")
    assert code == 1
    truth = incident[1]
    found = {it["node"]: it for it in said["leaking"]}
    assert found.keys() <= set(truth["leaking"])
    assert len(found) > 0.8 * len(truth["leaking"])
    errors = [
        abs((found[name]["onset"] - 1_772_323_200) / 60 - at * 60)
        for name, at in truth["onset_hours"].items()
        if name in found and found[name]["onset"]
    ]
    assert len(errors) >= 5
    assert sorted(errors)[len(errors) // 2] <= 10  # minutes
    assert said["changed_before"][0]["change"] == "unit:ecs.service: inactive → active"


def test_jobs_of_sick_nodes_fail_more(incident: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = _asked(capsys, incident, "jobs", "--by", "zone")
    assert code == 1
    assert said["odds_ratio"][0] > 1.5
    assert said["failed_by_node"] > 3 * said["failed_by_node_by_chance"]
    assert len(said["cohorts"]) == 4
    assert sum(it["jobs"] for it in said["cohorts"]) == said["jobs"]
    rates = [it["failed"] / it["jobs"] for it in said["cohorts"]]
    assert rates == sorted(rates, reverse=True), "the worst first"


def test_jobs_from_a_scheduler_are_added(incident: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _asked(capsys, incident, "jobs")[1]["jobs"]
    lines = ["node,job,start,end,outcome", "node-00001,a,2026-03-01T01:00:00,2026-03-01T02:00:00,failed"]
    lines += ["node-00002,b,1772323300,1772326900,success", "elsewhere,c,1,2,failed"]
    (tmp_path / "jobs.csv").write_text("\n".join(lines))
    assert (
        main(["fleet", "jobs", "--store", str(incident[0]), "--format", "json", "--csv", str(tmp_path / "jobs.csv")])
        < 2
    )
    out = capsys.readouterr()
    assert json.loads(out.out)["jobs"] == before + 2
    assert "1 jobs of nodes that are not in the store" in out.err


def test_flame_names_the_walk(incident: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = _asked(capsys, incident, "flame", "--folded", str(tmp_path / "diff.folded"))
    assert said["functions"][0]["function"] == "mem_cgroup_nr_lru_pages"
    assert said["stacks"][0]["stack"].endswith("memcg_numa_stat_show;mem_cgroup_nr_lru_pages")
    stack, others, sick = (tmp_path / "diff.folded").read_text().splitlines()[0].rsplit(" ", 2)
    assert stack.startswith("kubelet;") and int(sick) > int(others)


def test_prove_says_what_helped_and_what_did_not(canary: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    at = str(canary[1]["cured_at"])
    treated = ("prove", "--at", at, "--treated")
    code, said = _asked(capsys, canary, *treated, "labels['canary'] = 'yes'")
    assert (code, said["verdict"]) == (0, "helped")
    assert said["treated"] == pytest.approx(len(canary[1]["cured"]), abs=4)
    code, said = _asked(capsys, canary, *treated, "labels['pool'] = 'batch'")
    assert (code, said["verdict"]) == (1, "no difference seen")
    code, said = _asked(capsys, canary, *treated, "zone = 'us-east-1a'", "--measure", "restarts")
    assert said["verdict"] != "helped"


def test_a_plan_needs_fewer_nodes_for_more_hours(canary: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = _asked(capsys, canary, "prove", "--plan")
    nodes = [it["treated_nodes"] for it in said["plans"]]
    assert nodes == sorted(nodes, reverse=True) and nodes[0] > nodes[-1] >= 5


def test_any_sql(incident: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    _, rows = _asked(capsys, incident, "ask", "SELECT zone, count(*) AS nodes FROM nodes GROUP BY 1 ORDER BY 1")
    assert [it["zone"] for it in rows] == [f"us-east-1{it}" for it in "abcd"]
    assert sum(it["nodes"] for it in rows) == 600
    assert main(["fleet", "ask", "--store", str(incident[0]), "SELEC"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_pipe_gets_tsv(incident: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    main(["fleet", "compare", "--store", str(incident[0])])
    out = capsys.readouterr()
    assert out.out.splitlines()[0].startswith("factor\tsick with\t")
    assert "are explained by it" in out.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["status"], "give --store"),
        (["status", "--store", "/nonexistent/x"], "no such folder"),
        (["compare", "--store", "ftp://x"], "not a store"),
        (["gather", "--store", "/tmp/x", "/nonexistent"], "no such file"),
    ],
)
def test_mistakes_are_one_line(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", *words]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["status", "compare", "flame", "view", "compact", "tidy"])
def test_a_store_that_is_no_folder_is_said_and_never_opened(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "fifo")  # who opens it waits for a writer, for ever
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "manifests").write_text("")
    for name in ("fifo", "file", "link", "store/manifests"):
        store = str(tmp_path / name.removesuffix("/manifests"))
        assert main(["fleet", verb, "--store", store]) == 2
        assert f"{tmp_path}/{name}: not a folder, so not a store\n" in capsys.readouterr().err


def test_unknown_signs_and_ranges_are_said(incident: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "compare", "--store", str(incident[0]), "--sick", "nonsense"]) == 2
    assert "no such sign" in capsys.readouterr().err
    assert main(["fleet", "status", "--store", str(incident[0]), "--from", "2020-01-01", "--to", "2020-01-02"]) == 2
    assert "nothing in that range" in capsys.readouterr().err
