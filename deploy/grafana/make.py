"""Write the Grafana dashboards from panels.toml: `python deploy/grafana/make.py`. For Grafana 10 or newer."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDE = 24  # columns of a dashboard
HIGH = {"stat": 4, "table": 8, "timeseries": 8}  # rows of a panel
NODE = 'instance=~"$instance"'
CHOOSE_SOURCE = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
CHOOSE_NODE = {
    "name": "instance",
    "type": "query",
    "datasource": SOURCE,
    "query": "label_values(zombiescope_build_info, instance)",
    "label": "Node",
    "refresh": 2,
}
DASHBOARDS = {
    "node": ("zombiescope: one node", "Why does this node starve its work?", [CHOOSE_SOURCE, CHOOSE_NODE]),
    "fleet": ("zombiescope: all nodes", "Which nodes are sick, and what do they have in common?", [CHOOSE_SOURCE]),
}


def dashboard(name: str, panels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    title, says, variables = DASHBOARDS[name]
    return {
        "uid": f"zombiescope-{name}",
        "title": title,
        "description": says,
        "tags": ["zombiescope"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": variables},
        "panels": list(placed(panels)),
    }


def placed(panels: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """From left to right, then the next row; the panels of a row are equally high."""
    x = y = 0
    for number, it in enumerate(panels, 1):
        yield {
            "id": number,
            "type": it["kind"],
            "title": it["title"],
            "description": it["says"],
            "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": it["width"], "h": HIGH[it["kind"]]},
            "fieldConfig": {"defaults": {"unit": it["unit"], "min": 0}, "overrides": []},
            "options": {},
            "targets": [target(it["kind"], place, query) for place, query in enumerate(it["queries"])],
        }
        x += it["width"]
        if x >= WIDE:
            x, y = 0, y + HIGH[it["kind"]]


def target(kind: str, place: int, query: dict[str, str]) -> dict[str, Any]:
    over_time = kind == "timeseries"
    return {
        "refId": chr(ord("A") + place),
        "datasource": SOURCE,
        "expr": query["expr"].replace("$node", NODE),
        "legendFormat": query["legend"],
        "instant": not over_time,
        "range": over_time,
        "format": "table" if kind == "table" else "time_series",
    }


def written() -> dict[str, str]:
    """The text of each file."""
    panels = tomllib.loads((HERE / "panels.toml").read_text())
    return {f"{name}.json": json.dumps(dashboard(name, panels[name]), indent=1) + "\n" for name in DASHBOARDS}


if __name__ == "__main__":
    for name, text in written().items():
        (HERE / name).write_text(text)
