"""`fleet jobs`: how jobs ended on sick and on healthy nodes, and which failures are the node's and which the job's own.

A failure is the node's if something broke on that node (a reset, a lockup, an OOM kill) while the job ran, at most a
minute before it ended. How often that happens by chance follows from how often the node's things break at all.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from zombiescope.core import UserError, harmless
from zombiescope.fleet.chance import Strata
from zombiescope.fleet.csv_rows import csv_rows
from zombiescope.fleet.factors import COLUMNS, factors_of
from zombiescope.fleet.reading import Fleet
from zombiescope.fleet.schemas import TABLES
from zombiescope.fleet.sickness import sickness

BEFORE = 60  # seconds before a job's end in which the node's fault may have ended it
LARGEST = 256 << 20  # bytes of a CSV
SHOWN = 50  # cohorts
_OUTCOMES = {
    "failed": "failed",
    "failure": "failed",
    "error": "failed",
    "succeeded": "succeeded",
    "success": "succeeded",
}


def jobs(fleet: Fleet, asked: str | None = None, by: str = "", from_csv: str = "") -> dict[str, Any]:
    if from_csv:
        _read(fleet, from_csv)
    nodes = factors_of(fleet)
    ill = sickness(fleet, nodes.nodes, asked)
    state = np.where(ill.sick, "sick", np.where(ill.known, "healthy", "blind"))
    fleet.connection.register(
        "_state", pa.table({"node_id": pa.array(nodes.nodes, pa.uint64()), "state": state.tolist()})
    )
    counts = dict.fromkeys(("sick", "healthy", "blind"), (0, 0)) | {
        it[0]: (it[1], it[2])
        for it in fleet.rows(
            "SELECT state, count(*), count(*) FILTER (outcome = 'failed') "
            "FROM jobs JOIN _state USING (node_id) GROUP BY 1"
        )
    }
    (many, bad), (others, worse) = counts["sick"], counts["healthy"]
    table = Strata(np.array([many + others]), np.array([many]), np.array([bad + worse]), np.array([bad]))
    found = {
        "jobs": sum(it[0] for it in counts.values()),
        "failed": sum(it[1] for it in counts.values()),
        "nodes": {name: _rate(*its) for name, its in counts.items()},
        "odds_ratio": [round(it, 2) for it in table.odds_ratio()] if many and others else None,
        "p": table.p() if many and others else None,
        **_whose(fleet),
        "cohorts": _cohorts(fleet, by) if by else [],
    }
    fleet.connection.unregister("_state")
    return found


def _rate(many: int, failed: int) -> dict[str, Any]:
    """Success with Wilson's 95 % interval."""
    if not many:
        return {"jobs": 0, "failed": 0, "success": None}
    share, z = (many - failed) / many, 1.96
    middle = (share + z * z / (2 * many)) / (1 + z * z / many)
    half = z * sqrt(share * (1 - share) / many + z * z / (4 * many * many)) / (1 + z * z / many)
    interval = [round(max(middle - half, 0), 4), round(share, 4), round(min(middle + half, 1), 4)]
    return {"jobs": many, "failed": failed, "success": interval}


def _whose(fleet: Fleet) -> dict[str, Any]:
    """Failures that follow a fault of the node, and how many of these chance alone would give."""
    hit, expected = fleet.rows(f"""
        WITH watched AS (SELECT node_id, sum(watched_seconds) AS seconds FROM node_hours GROUP BY 1),
        often AS (SELECT node_id, count(*) AS many FROM events GROUP BY 1),
        failed AS (SELECT row_number() OVER () AS number, * FROM jobs WHERE outcome = 'failed'),
        hit AS (SELECT DISTINCT number FROM failed f JOIN events e ON e.node_id = f.node_id
                AND e.ts <= f.ended AND e.ts >= f.started AND epoch(f.ended) - epoch(e.ts) <= {BEFORE})
        SELECT (SELECT count(*) FROM hit),
            sum(1 - exp(-coalesce(o.many, 0) / greatest(w.seconds, 1) * {BEFORE}))
        FROM failed f LEFT JOIN often o USING (node_id) LEFT JOIN watched w USING (node_id)""")[0]
    failed, unseen = fleet.rows("""
        SELECT count(*), count(*) FILTER (state = 'blind') FROM jobs LEFT JOIN _state USING (node_id)
        WHERE outcome = 'failed'""")[0]
    return {
        "failed_by_node": hit,
        "failed_by_node_by_chance": round(expected or 0.0, 1),
        "failed_by_themselves": failed - hit - unseen,
        "failed_unseen": unseen,
    }


def _cohorts(fleet: Fleet, by: str) -> list[dict[str, Any]]:
    trait = by if by in COLUMNS else "labels[?]"
    rows = fleet.rows(
        f"""
        SELECT coalesce({trait}::VARCHAR, '') AS cohort, count(*), count(*) FILTER (outcome = 'failed')
        FROM jobs JOIN nodes USING (node_id) GROUP BY 1
        ORDER BY count(*) FILTER (outcome = 'failed') / count(*) DESC, 1 LIMIT {SHOWN}""",
        [] if by in COLUMNS else [by],
    )
    return [{by: harmless(cohort), **_rate(many, bad)} for cohort, many, bad in rows]


def _read(fleet: Fleet, path: str) -> None:
    """Outcomes from a scheduler: `node,job,start,end,outcome`, times in unix seconds or ISO 8601. They are added."""
    from zombiescope.fleet.csv_times import seconds

    known = {name: node for node, name in fleet.rows("SELECT node_id, name FROM nodes")}
    rows: list[tuple[Any, ...]] = []
    unknown = 0
    for number, row in enumerate(csv_rows(path, LARGEST), 2):
        outcome = _OUTCOMES.get((row.get("outcome") or "").strip().lower(), "cancelled")
        try:
            start, end = (seconds(row.get(it) or "") for it in ("start", "end"))
        except ValueError as error:
            raise UserError(f"{path}: line {number}: {harmless(str(error))}") from None
        if row.get("node") in known:
            micro = (round(start * 1e6), round(end * 1e6))
            rows.append((known[row["node"]], *micro, (row.get("job") or "")[:400], "csv", outcome, ""))
        else:
            unknown += 1
    if not rows:
        raise UserError(f"{path}: no job of a node in the store; its first line must be node,job,start,end,outcome")
    if unknown:
        import sys

        print(f"{path}: {unknown} jobs of nodes that are not in the store were left out", file=sys.stderr)
    schema = TABLES["jobs"].schema
    table = pa.table(
        [pa.array(it).cast(field.type) for it, field in zip(zip(*rows, strict=True), schema, strict=True)],
        schema=schema,
    )
    fleet.connection.register("_jobs_csv", table)
    definition = fleet.rows("SELECT sql FROM duckdb_views() WHERE view_name = 'jobs'")[0][0]
    select = definition[definition.upper().index(" AS ") + 4 :].rstrip().rstrip(";")
    names = ", ".join(schema.names)
    fleet.rows(f"CREATE OR REPLACE VIEW jobs AS {select} UNION ALL SELECT {names} FROM _jobs_csv")
