"""A copy of the project with nine new files, and no other file touched: they are in every verb, page and check."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PROJECT

ROOMS = ["probes", "signs", "laws", "questions", "remedies", "gate", "outputs", "lab", "cli"]
# Two recordings, one of a node that has what the new sign finds, one from after. They are made in the copy.
RECORDED = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.nodes import cores, read
from tests.recorder.written import Sampled, written
from tests.signs.test_zombie_cgroups import v1

def recorded(folder, begins, storm):
    paces = [1_000] * 40 + [400_000 if storm else 1_000] * 20
    readings = [read("context_switches_total", "node", sum(paces[:at]), at) for at in range(61)]
    readings += [read("file_handles", "node", 1632, at) for at in range(61)]
    busy = [{"system": 0.02}] * 40 + [{"system": 0.99 if storm else 0.02}] * 20
    readings += cores({0: busy, 1: [{"user": 0.1}] * 60}, every=1.0)
    readings += v1([68_620.0] * 61)
    waits = [0.0] * 40 + [0.5 if storm else 0.0] * 20
    readings += [read("pressure_cpu_waiting_seconds_total", "node", sum(waits[:at]), at) for at in range(61)]
    readings += [read(what, "node", 1, at) for what in ("samples_total", "kernel_symbols") for at in range(61)]
    readings = [replace(it, at=it.at + begins) for it in readings]
    gives = {"probe": sorted({it.what for it in readings})}
    written(Path(folder), Sampled(), readings=readings, gives=gives, looks=[begins + at for at in range(61)])

recorded("before", 0, True)
recorded("after", 100, False)
"""
PAGE = """
import json
from tests.web.unpacked import Unpacked
from zombiescope.cli._sources import opened
from zombiescope.web.payload import bundle_of
header = Unpacked(bundle_of(opened("before"))).header
print(json.dumps([header["series"], header["case"]]))
"""
SCORED = "from zombiescope.cli.lab import _chosen; print(*_chosen([]))"
Command = Callable[..., str]


def recipes() -> dict[str, str]:
    """The whole files of docs/adding.md, by path."""
    text = (PROJECT / "docs" / "adding.md").read_text()
    return dict(re.findall(r"^`(src/\S+\.py)`\n\n```python\n(.*?)```$", text, re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    for part in ("src", "docs", "tests"):
        shutil.copytree(PROJECT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "static"))
    shutil.copy(PROJECT / "pyproject.toml", folder)
    for path, text in recipes().items():
        assert not (folder / path).exists()
        (folder / path).write_text(text)
    return folder


@pytest.fixture(scope="module")
def run(copy: Path) -> Command:
    env = {**os.environ, "PYTHONPATH": f"{copy / 'src'}:{copy}", "PYTHONDONTWRITEBYTECODE": "1"}

    def command(*argv: str, expect: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run([sys.executable, *argv], cwd=copy, env=env, capture_output=True, text=True, check=False)
        assert done.returncode in expect, done.stdout + done.stderr
        return done.stdout

    command("-c", RECORDED)
    return command


def zombiescope(run: Command, *argv: str, expect: tuple[int, ...] = (0,)) -> Any:
    return json.loads(run("-m", "zombiescope", *argv, "--format", "json", expect=expect))


def test_there_is_a_recipe_for_every_room() -> None:
    assert [Path(path).parent.name for path in recipes()] == ROOMS


def test_diagnose(run: Command) -> None:
    case = zombiescope(run, "diagnose", "before", expect=(1,))
    states = {it["sign"]: it["state"] for it in case["verdicts"]}
    assert states["context_switch_storm"] == "found" and "broken" not in states.values()
    chains = [[it["sign"] for it in chain] for chain in case["chains"]]
    assert ["context_switch_storm", "saturated_core"] in [chain[:2] for chain in chains]
    assert "context_switch_storm\tnode\t" in run(
        "-m", "zombiescope", "diagnose", "before", "--format", "tsv", expect=(1,)
    )
    after = zombiescope(run, "diagnose", "after", expect=(1, 3))
    assert {it["sign"]: it["state"] for it in after["verdicts"]}["context_switch_storm"] == "clear"


def test_a_plan(run: Command) -> None:
    plans = zombiescope(run, "fix", "drop_page_cache", "--recording", "before", expect=(1,))["plans"]
    assert [(it["name"], it["cures"]["sign"]) for it in plans] == [("drop_page_cache", "zombie_cgroups")]


def test_prove(run: Command) -> None:
    proof = zombiescope(run, "prove", "before", "after", "--cured", "context_switch_storm", expect=(0, 1, 3))
    checks = {it["name"]: it["state"] for it in proof["checks"]}
    assert checks["context_switch_storm of node"] == checks["saturated_core of cpu:0"] == "held"
    other = zombiescope(run, "prove", "before", "after", "--cured", "saturated_core", expect=(0, 1, 3))
    assert {it["name"]: it["state"] for it in other["checks"]}["tasks are not switched all the time"] == "held"


def test_explain_and_its_map(run: Command) -> None:
    words = run("-m", "zombiescope", "explain", "context_switch_storm_to_saturated_core")
    assert "each switch is kernel work" in words.lower()
    mapped = zombiescope(run, "explain", "--map")
    assert "context_switch_storm" in mapped["signs"]
    assert "context_switch_storm_to_saturated_core" in [it["law"] for it in mapped["laws"]]
    named = {(it["room"], it["name"]) for it in zombiescope(run, "explain")}
    for it in (("probes", "file_nr"), ("questions", "forks_explain_switches"), ("remedies", "drop_page_cache")):
        assert it in named


def test_a_verb_and_a_probe(run: Command) -> None:
    assert "file_nr\t5\tfile_handles" in run("-m", "zombiescope", "sources")


def test_the_page(run: Command) -> None:
    series, case = json.loads(run("-c", PAGE))
    assert ("context switches", "per s") in [(it["name"], it["unit"]) for it in series]
    assert "context_switch_storm" in json.dumps(case)


def test_the_gate(run: Command, copy: Path) -> None:
    crontab = copy / "image" / "etc" / "crontab"
    crontab.parent.mkdir(parents=True)
    crontab.write_text("* * * * * root poll\n")
    rules = zombiescope(run, "gate", "--root", "image", expect=(0, 1, 3))["rules"]
    assert [it["state"] for it in rules if it["rule"] == "frequent_cron"] == ["pass"], "a note does not close it"
    strict = zombiescope(run, "gate", "--root", "image", "--strict", expect=(1,))["rules"]
    assert [it["state"] for it in strict if it["rule"] == "frequent_cron"] == ["fail"]


def test_the_lab_s_list_and_its_score(run: Command) -> None:
    assert "many_switches" in [it["name"] for it in zombiescope(run, "lab", "list")]
    assert "many_switches" in run("-c", SCORED).split()


def test_the_generated_pages(run: Command, copy: Path) -> None:
    run("docs/generate.py")
    docs = copy / "docs"
    assert "200,000" in (docs / "signs" / "context_switch_storm.md").read_text()
    assert (docs / "remedies" / "drop_page_cache.md").exists()
    assert "`file_nr`" in (docs / "probes.md").read_text()
    assert "## zombiescope sources\n" in (docs / "commands.md").read_text()
    law = "[context_switch_storm](signs/context_switch_storm.md) → [saturated_core](signs/saturated_core.md)"
    assert law in (docs / "causal-map.md").read_text()
    assert ">context_switch_storm</text>" in (docs / "causal-map.svg").read_text()


def test_the_checks_meet_all_of_them_on_arrival(run: Command) -> None:
    new = [Path(path).stem for path in recipes()]
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_rooms.py", "-k", " or ".join(new))
    # The file of each, its words, and what it does.
    found = re.search(r"\b(\d+) passed", done)
    assert found and int(found[1]) >= 3 * len(new) and "failed" not in done
