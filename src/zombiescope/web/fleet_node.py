"""One node of a fleet: what it is, what was found on it, hour by hour, and how to look at it itself."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from zombiescope.core import UserError, harmless
from zombiescope.core.commands import command
from zombiescope.fleet.reading import Fleet
from zombiescope.web.fleet_overview import TRAITS
from zombiescope.web.fleet_trends import HOUR

FINDINGS = 60  # kinds of findings, the dearest
UNITS = 40  # units, those that restarted most
EVENTS = 20  # kinds of events
LABELS = 64
RECORDING = "/var/lib/zombiescope"  # where an agent keeps its own
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})")
_ID = re.compile(r"[0-9a-f]{16}")


def node(fleet: Fleet, wanted: str, agents: str = "") -> dict[str, Any]:
    """By its id in hex. `agents`: the address of a node's agent, with {node} for its name."""
    if not _ID.fullmatch(wanted):
        raise UserError("no such node")
    its = int(wanted, 16)
    traits = ", ".join(TRAITS)
    rows = fleet.rows(f"SELECT name, {traits}, cores, labels, blind, epoch(ts) FROM nodes WHERE node_id = ?", [its])
    if not rows:
        raise UserError("no such node")
    name, *values, cores, labels, blind, last = rows[0]
    found = _findings(fleet, its)
    return {
        "id": wanted,
        "name": harmless(name or "") or wanted,
        "traits": {key: harmless(it or "") for key, it in zip(TRAITS, values, strict=True)},
        "labels": {harmless(str(key)): harmless(str(it)) for key, it in list(dict(labels or {}).items())[:LABELS]},
        "cores": cores,
        "last": last,
        "blind": sorted(harmless(it or "") for it in (blind or [])[:200]),
        "findings": found,
        "units": [
            {"unit": harmless(unit or ""), "active": active, "enabled": enabled, "restarts": restarts}
            for unit, active, enabled, restarts in fleet.rows(
                f"""SELECT unit, bool_or(active), bool_or(enabled), coalesce(sum(restarts), 0) FROM units
                WHERE node_id = ? GROUP BY 1 ORDER BY 4 DESC, 2 DESC, 1 LIMIT {UNITS}""",
                [its],
            )
        ],
        "events": [
            {"kind": harmless(kind or ""), "subject": harmless(subject or ""), "many": many, "last": at}
            for kind, subject, many, at in fleet.rows(
                f"""SELECT kind, subject, count(*), max(epoch(ts)) FROM events WHERE node_id = ?
                GROUP BY ALL ORDER BY 3 DESC, 1, 2 LIMIT {EVENTS}""",
                [its],
            )
        ],
        "jobs": dict(zip(("all", "failed"), _jobs(fleet, its), strict=True)),
        "hours": _hours(fleet, its),
        "page": _page(name or "", agents),
        "commands": _commands(fleet, its, name or "", found),
    }


def _findings(fleet: Fleet, its: int) -> list[dict[str, Any]]:
    """Of each kind one: how long it was there, what it said last, and what it cost."""
    rows = fleet.rows(
        f"""
        SELECT sign, subject, role, min(epoch(started)), max(epoch(ended)), count(*), arg_max(says, ended),
            coalesce(sum(core_hours), 0), sum(coalesce(broken, 0)), arg_max(held_bytes, ended),
            arg_max(soon_seconds, ended), count(core_hours) = 0
        FROM costs WHERE node_id = ? GROUP BY sign, subject, role
        ORDER BY role = 'root' DESC, role IN ('effect', 'unexplained') DESC, 8 DESC, 1, 2 LIMIT {FINDINGS}""",
        [its],
    )
    keys = ("start", "end", "times", "says", "core_hours", "broken", "held_bytes", "soon_seconds", "cost_unknown")
    return [
        {"sign": harmless(sign or ""), "subject": harmless(subject or ""), "role": harmless(role or "")}
        | {
            key: harmless(it) if isinstance(it, str) else it
            for key, it in zip(keys, (start, end, times, says or "", *rest), strict=True)
        }
        for sign, subject, role, start, end, times, says, *rest in rows
    ]


def _jobs(fleet: Fleet, its: int) -> tuple[int, int]:
    rows = fleet.rows("SELECT count(*), count(*) FILTER (outcome = 'failed') FROM jobs WHERE node_id = ?", [its])
    return rows[0][0], rows[0][1]


def _hours(fleet: Fleet, its: int) -> dict[str, Any]:
    """Hours that the node did not send are absent."""
    at = [it.start for it in fleet.hours]
    asked = (
        f"SELECT {HOUR.format('ts')}, count(*) FROM node_hours",
        f"SELECT {HOUR.format('started')}, sum(core_hours) FILTER (role = 'root') FROM costs",
        f"SELECT {HOUR.format('ts')}, avg(memcg_dying) FROM metrics",
    )
    seen, cost, dying = (dict(fleet.rows(f"{it} WHERE node_id = ? GROUP BY 1", [its])) for it in asked)
    return {
        "at": at,
        "cores": [(cost.get(it) or 0.0) if it in seen else None for it in at],
        "dying": [dying.get(it) for it in at],
    }


def _page(name: str, agents: str) -> str:
    """The agent's own page. A node chooses its name, so only what can be a host's gets into an address."""
    return agents.replace("{node}", name) if agents and _HOST.fullmatch(name) else ""


def _commands(fleet: Fleet, its: int, name: str, found: list[dict[str, Any]]) -> list[dict[str, str]]:
    start = next((it["start"] for it in found if it["role"] == "root"), fleet.hours[-1].start)
    end = min(start + 3600, fleet.span.end)
    page = command("zombiescope", "view", RECORDING, "--from", _moment(start), "--to", _moment(end))
    query = f"SELECT * FROM findings WHERE node_id = {its} ORDER BY started"
    words = ["zombiescope", "fleet", "ask", "--store", fleet.store.url, query]
    clip = ["zombiescope", "fleet", "clip", "--store", fleet.store.url, name]
    sent = _HOST.fullmatch(name) and fleet.rows("SELECT 1 FROM clips WHERE node_id = ? LIMIT 1", [its])
    return [
        *([{"says": "here: a clip of its worst moment", "command": command(*clip)}] if sent else []),
        {"says": "on the node: its page, of the hour in which it began", "command": page},
        {"says": "on the node: what is wrong now", "command": "zombiescope diagnose"},
        {"says": "here: all that it sent of its findings", "command": command(*words)},
    ]


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
