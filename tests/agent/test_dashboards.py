"""The Grafana dashboards: as their panels say, in Grafana's own types, with queries that Prometheus understands."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.agent.test_deploy import DEPLOY
from tests.agent.test_metrics import look, seen, text
from tests.conftest import CANNOT, PROJECT
from tests.npm import text_of
from tests.peers import peer

GRAFANA = DEPLOY / "grafana"
NAMES = ("node", "fleet")
TYPES = "dist/types/raw/dashboard/x/types.gen.d.ts"


def panels(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GRAFANA / f"{name}.json").read_text())["panels"]
    return found


def queries() -> list[str]:
    """As Grafana sends them, for all nodes."""
    every = [it["expr"] for name in NAMES for panel in panels(name) for it in panel["targets"]]
    return [it.replace("$instance", ".*") for it in every]


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_what_its_panels_say(name: str) -> None:
    written = runpy.run_path(str(GRAFANA / "make.py"))["written"]()
    assert written[f"{name}.json"] == (GRAFANA / f"{name}.json").read_text(), "run python deploy/grafana/make.py"


@pytest.mark.parametrize("name", NAMES)
def test_panels_fill_whole_rows_and_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels(name):
        it = panel["gridPos"]
        cells = {(x, y) for x in range(it["x"], it["x"] + it["w"]) for y in range(it["y"], it["y"] + it["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
    assert len(taken) == 24 * (1 + max(y for _, y in taken)), "no gaps"


def test_every_metric_in_a_query_is_one_that_we_export() -> None:
    used = set(re.findall(r"\bzombiescope_[a-z_]+", " ".join(queries())))
    exported = set(re.findall(r"^(zombiescope_[a-z_]+)", text(seen(look())), re.MULTILINE))
    assert len(used) > 15 and used <= exported


def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    promtool = peer("promtool")
    rules = [{"record": f"panel:{number}", "expr": it} for number, it in enumerate(queries())]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([*promtool, "check", "rules", tmp_path / "rules.yml"], capture_output=True, text=True)
    assert done.returncode == 0 and f"{len(rules)} rules found" in done.stdout, done.stderr


def test_they_are_dashboards_in_grafana_s_own_types(tmp_path: Path) -> None:
    compiler = PROJECT / "page" / "node_modules" / ".bin" / "tsc"
    if not compiler.exists():
        pytest.skip(f"{CANNOT}the compiler is fetched with the page: make page")
    (tmp_path / "types.d.ts").write_text(text_of("@grafana/schema", TYPES, "GRAFANA_DASHBOARD_TYPES"))
    files = []
    for name in NAMES:
        files.append(tmp_path / f"{name}.ts")
        content = (GRAFANA / f"{name}.json").read_text()
        files[-1].write_text(f'import type {{ Dashboard }} from "./types";\nexport const it: Dashboard = {content};\n')
    options = ("--noEmit", "--strict", "--skipLibCheck", "--ignoreConfig", "--module", "esnext")
    done = subprocess.run(
        [compiler, *options, "--moduleResolution", "bundler", *files], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout
