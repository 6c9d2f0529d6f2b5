"""`kubectl zombiescope nodes`: every node's condition, root cause and since when, in one table."""

from __future__ import annotations

import json
import re
import time
from calendar import timegm
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from zombiescope.core import harmless, lasting
from zombiescope.kubernetes.conditions import STARVED
from zombiescope.outputs._exit_codes import BLIND, CLEAR, FOUND
from zombiescope.plugin.kubectl import Kubectl

STALE = 900.0  # seconds: three heartbeats that did not come
ORDER = ("True", "Unknown", "False")  # the sick first, then those that nobody sees
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class Row:
    node: str
    starved: str  # True, False or Unknown
    cause: str
    since: str
    says: str


def run(kubectl: Kubectl, form: str) -> int:
    listed = kubectl.json("get", "nodes").get("items")
    rows = [row(it, time.time()) for it in (listed if isinstance(listed, list) else ()) if isinstance(it, dict)]
    rows.sort(key=lambda it: (ORDER.index(it.starved), it.node))
    if form == "json":
        print(json.dumps([asdict(it) for it in rows]))
    else:
        table = [("NODE", "STARVED", "CAUSE", "SINCE", "SAYS")]
        table += [(it.node, it.starved, it.cause, it.since, it.says) for it in rows]
        widths = [max(len(line[column]) for line in table) for column in range(4)]
        for line in table:
            cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
            print("  ".join([*cells, line[4]]).rstrip())
    states = {it.starved for it in rows}
    return FOUND if "True" in states else BLIND if "Unknown" in states or not rows else CLEAR


def row(node: Mapping[str, Any], now: float) -> Row:
    """A condition that nobody renews says nothing about now."""
    about, status = node.get("metadata"), node.get("status")
    name = harmless(str(about.get("name") if isinstance(about, dict) else ""), most=253)
    listed = status.get("conditions") if isinstance(status, dict) else None
    for it in listed if isinstance(listed, list) else ():
        if isinstance(it, dict) and it.get("type") == STARVED:
            beat, since = _at(it.get("lastHeartbeatTime")), _at(it.get("lastTransitionTime"))
            if now - beat > STALE:
                return Row(name, "Unknown", "Stale", "", f"its agent was last heard {lasting(now - beat)} ago")
            state = str(it.get("status"))
            known = state if state in ORDER else "Unknown"
            for_so_long = lasting(now - since) if 0 < since <= now else ""
            words = harmless(str(it.get("message") or "")).partition("; see: kubectl")[0]
            return Row(name, known, harmless(str(it.get("reason") or ""), most=40), for_so_long, words)
    return Row(name, "Unknown", "NoAgent", "", "no agent has looked at it")


def _at(text: object) -> float:
    found = _MOMENT.match(str(text))
    try:
        return float(timegm(time.strptime(found[0], "%Y-%m-%dT%H:%M:%S"))) if found else 0.0
    except ValueError:
        return 0.0
