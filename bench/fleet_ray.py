"""The stack-level difference of two cohorts on two workers of a local Ray, against DuckDB on one core.

200 million rows: what 200 nodes send in a week at most. Twelve hours of them are made, and lie there fourteen times.
Ray needs OpenTelemetry whole, or not at all: beside opentelemetry-proto alone, which the tests use, it does not start.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from zombiescope.core import UserError

if TYPE_CHECKING:
    from zombiescope.fleet.reading import Fleet

NODES, HOURS, TIMES, EACH = 200, 12, 14, 6_000  # rows of a node and hour: what it sends at most
STACKS, COMMS = 73_000, 120
RUNS = 3
FASTER = 1.6  # times
START = 1_772_323_200


def ratios() -> Iterator[tuple[str, float, float, str]]:
    if importlib.util.find_spec("ray") is None:
        raise UserError("Ray is not installed: pip install ray opentelemetry-sdk opentelemetry-exporter-prometheus")
    with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder:
        environ = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
        environ |= {"RAY_USAGE_STATS_ENABLED": "0", "HOME": folder}
        command = [sys.executable, "-m", "bench.fleet_ray", folder]
        done = subprocess.run(command, capture_output=True, text=True, env=environ)
        assert done.returncode == 0, done.stderr[-2000:]
        one, two, rows = map(float, done.stdout.split()[-3:])
    detail = f"{two:.1f} s against {one:.1f} s, {rows / 1e6:.0f} million rows, {one / two:.2f} times as fast"
    yield "two Ray workers against DuckDB on one core, time", two / one, 1 / FASTER, detail


def _made(folder: str) -> Fleet:
    """A fleet of samples alone."""
    import numpy as np
    import pyarrow as pa

    from zombiescope.fleet import reading, store
    from zombiescope.fleet.hours import Hour, table_key
    from zombiescope.fleet.parcel import parquet
    from zombiescope.fleet.schemas import TABLES, node_id

    kept, shape = store.opened(f"{folder}/store"), TABLES["samples"]
    ids = np.sort(np.array([node_id(f"node-{it}") for it in range(NODES)], np.uint64))
    keys = []
    for hour in range(HOURS):
        draw = np.random.default_rng([3, hour])
        stacks = np.sort((draw.random((NODES, EACH)) ** 3 * STACKS).astype(np.int64), axis=1).ravel()
        at = START + hour * 3600 + draw.integers(0, 6, len(stacks)) * 600
        rows = {
            "node_id": np.repeat(ids, EACH),
            "ts": pa.array(at * 1_000_000).cast(pa.timestamp("us")),
            "comm": np.array([f"worker-{it}" for it in range(COMMS)])[stacks % COMMS],
            "stack": stacks * 2_654_435_761,
            "seconds": draw.exponential(2.0, len(stacks)).round(2).astype(np.float32),
        }
        content = parquet(shape, pa.table(rows, schema=shape.schema))
        for again in range(TIMES):
            keys.append(table_key("samples", Hour(START + (hour + again * HOURS) * 3600), 0, "made"))
            kept.create(keys[-1], content)
    fleet = reading.Fleet(kept, [Hour(START)], {})
    fleet.keys = {"samples": keys}
    return fleet


def _timed(folder: str) -> tuple[float, float, int]:
    import numpy as np
    import pyarrow as pa
    import ray

    from zombiescope.fleet.flame import SPENT
    from zombiescope.fleet.partial_sums import Part, Question, answer_of_part
    from zombiescope.fleet.ray_cluster import RayCluster

    fleet = _made(folder)
    ids = np.unique(answer_of_part(fleet.store.url, _nodes(), Part(tuple(fleet.keys["samples"][:1])))["node_id"])
    cohorts = pa.table({"node_id": ids.astype(np.uint64), "cohort": (np.arange(len(ids)) % 2).astype(np.int8)})
    question = Question("samples", SPENT, {"_cohort": cohorts})
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
    cluster = RayCluster("auto")
    one, two = [], []
    cluster.asked(fleet, question)  # its workers have started
    for _ in range(RUNS):
        started = time.perf_counter()
        alone = answer_of_part(fleet.store.url, question, Part(tuple(fleet.keys["samples"])))
        one.append(time.perf_counter() - started)
        started = time.perf_counter()
        parts = cluster.asked(fleet, question)
        two.append(time.perf_counter() - started)
        assert _added([alone]).equals(_added(parts)), "the answers differ"
    return min(one), min(two), NODES * HOURS * TIMES * EACH


def _nodes() -> Any:
    from zombiescope.fleet.partial_sums import Question

    return Question("samples", "SELECT DISTINCT node_id FROM {source}")


def _added(tables: Any) -> Any:
    """All parts added up, in one order: time of every cohort, process and stack."""
    import pyarrow as pa

    keys = ["cohort", "comm", "stack"]
    added = pa.concat_tables(tables).group_by(keys).aggregate([("micro", "sum")])
    return added.sort_by([(it, "ascending") for it in keys])


if __name__ == "__main__":
    print(*_timed(sys.argv[1]))
