"""What questions to a fleet cost, in CPU seconds: features, ranking and ingest against their goals; features also
beside polars and ClickHouse's engine (chdb) where these are installed, over the same files and in the same run.
"""

from __future__ import annotations

import importlib.util
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FEATURES, RANKING, INGEST = 0.5, 15.0, 3.0  # CPU seconds
RUNS = 5
SLOPE = "simpleLinearRegression(toUnixTimestamp64Micro(ts) / 1e6, memcg_dying).1 * 3600"
CLICKHOUSE = f"""
    SELECT node_id, count(), max(core_system_max), sum(core_saturated_seconds), avg(cpu_user + cpu_system),
        avg(cpu_steal), max(memcg_dying), {SLOPE}, sum(pgscan_direct) * 10, avg(throttled), avg(pressure_memory),
        quantileExactInclusive(0.99)(pressure_cpu), sum(softnet_squeezed) * 10, min(memory_available_bytes)
    FROM file('{{paths}}', Parquet) GROUP BY node_id"""


def ratios() -> Iterator[tuple[str, float, float, str]]:
    with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder:
        cost = _apart("features", f"{folder}/a")
        ours = cost["duckdb"]
        yield "features of 1,000 nodes × 12 h × 32 metrics against 0.5 s", ours / FEATURES, 1.0, f"{ours:.2f} s CPU"
        for peer, package in (("polars", "polars"), ("chdb", "chdb (ClickHouse's engine)")):
            if peer in cost:
                detail = f"{ours:.2f} s CPU against {cost[peer]:.2f} s"
                yield f"the same against {package}", ours / cost[peer], 1.5, detail
            else:
                print(f"fleet: {package} is not installed: not compared with it", file=sys.stderr)
        shutil.rmtree(f"{folder}/a")
        cpu = _apart("ingest", f"{folder}/b")["compact"]
        yield "ingest of 1,000 node-hours against 3 s", cpu / INGEST, 1.0, f"{cpu:.2f} s CPU"
        shutil.rmtree(f"{folder}/b")
        cost = _apart("ranking", f"{folder}/c")
        cpu = sum(cost.values())
        detail = ", ".join(f"{name} {its:.1f} s CPU" for name, its in cost.items())
        yield "ranking of 10,000 node-days against 15 s", cpu / RANKING, 1.0, detail


def _apart(what: str, folder: str) -> dict[str, float]:
    """In a process of its own, so that nothing else counts; what it prints is a name and a figure in each line."""
    done = subprocess.run([sys.executable, "-m", "bench.fleet", what, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


def _features(folder: str) -> dict[str, float]:
    from zombiescope.fleet import reading, store
    from zombiescope.fleet.features import from_metrics
    from zombiescope.fleet.partial_sums import answer
    from zombiescope.fleet.simulated.fleet import simulate

    simulate(folder, 1000, 12, 7, "incident", every=10)
    fleet = reading.opened(store.opened(folder))
    paths = [fleet.store.path(key) for key in fleet.keys["metrics"]]
    ways: dict[str, Callable[[], int]] = {"duckdb": lambda: int(answer(fleet, from_metrics(12)).num_rows)}
    if importlib.util.find_spec("polars"):
        ways["polars"] = lambda: _polars(paths)
    if importlib.util.find_spec("chdb"):
        ways["chdb"] = lambda: _chdb(folder)
    cost = dict.fromkeys(ways, float("inf"))
    for _ in range(RUNS):  # in turns, so that a noisy moment is everybody's
        for name, way in ways.items():
            started = time.process_time()
            nodes = way()
            cost[name] = min(cost[name], time.process_time() - started)
            assert nodes > 990, (name, nodes)
    return cost


def _polars(paths: list[str]) -> int:
    import polars as pl

    at = pl.col("ts").dt.epoch("us") / 1e6
    by_node = pl.scan_parquet(paths).group_by("node_id")
    found: Any = by_node.agg(
        pl.len().alias("readings"),
        pl.col("core_system_max").max(),
        pl.col("core_saturated_seconds").sum(),
        (pl.col("cpu_user") + pl.col("cpu_system")).mean().alias("busy_cores"),
        pl.col("cpu_steal").mean(),
        pl.col("memcg_dying").max().alias("dying"),
        (pl.cov(at, pl.col("memcg_dying")) / at.var() * 3600).alias("dying_per_hour"),
        pl.col("pgscan_direct").sum() * 10,
        pl.col("throttled").mean(),
        pl.col("pressure_memory").mean(),
        pl.col("pressure_cpu").quantile(0.99, "linear"),
        pl.col("softnet_squeezed").sum() * 10,
        pl.col("memory_available_bytes").min(),
    ).collect()
    return int(found.height)


def _chdb(folder: str) -> int:
    chdb: Any = importlib.import_module("chdb")  # its own types are half of them

    return int(chdb.query(CLICKHOUSE.format(paths=f"{folder}/v1/metrics/**/*.parquet"), "ArrowTable").num_rows)


def _ingest(folder: str) -> dict[str, float]:
    """With the processes that parcels are opened in."""
    from zombiescope.fleet import store
    from zombiescope.fleet.compaction import compact
    from zombiescope.fleet.simulated.fleet import simulate

    simulate(folder, 1030, 1, 7, "incident", every=10, parcels=True)
    best = float("inf")
    for _ in range(3):
        for made in ("v1", "manifests"):
            shutil.rmtree(Path(folder, made), ignore_errors=True)
        before = _used()
        done = compact(store.opened(folder))
        best = min(best, (_used() - before) * 1000 / done.parcels)
        assert done.parcels > 950 and not done.refused
    return {"compact": best}


def _used() -> float:
    return sum(
        it.ru_utime + it.ru_stime for it in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def _ranking(folder: str) -> dict[str, float]:
    """10,000 nodes for a day: which traits sick nodes share, and which functions they run."""
    from zombiescope.fleet import reading, store
    from zombiescope.fleet.compare import compare
    from zombiescope.fleet.flame import flame
    from zombiescope.fleet.simulated.fleet import simulate

    truth = simulate(folder, 10_000, 24, 7, "incident", every=600)
    cost = {}
    started = time.process_time()
    fleet = reading.opened(store.opened(folder))
    cost["open"] = time.process_time() - started
    started = time.process_time()
    assert [it["factor"] for it in compare(fleet)["causes"]] == truth["causes"]
    cost["compare"] = time.process_time() - started
    started = time.process_time()
    assert flame(fleet)["functions"]
    cost["flame"] = time.process_time() - started
    return cost


if __name__ == "__main__":
    parts = {"features": _features, "ingest": _ingest, "ranking": _ranking}
    for name, value in parts[sys.argv[1]](sys.argv[2]).items():
        print(name, value)
