"""What a node's own cores, and the time, allow: a figure beyond them is unknown, in the rows that have it alone.

Who sends is not trusted: one node that claims 3e38 waiting cores would stand for the whole fleet in every sum. Limits
are generous, so that an honest node never meets one: counters are read some milliseconds late, cores come and go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zombiescope.fleet.hours import SECONDS

MOST_CORES = 8192  # Linux is built for no more (NR_CPUS of x86)
WAITING = 1000  # threads that wait at once for each core: far beyond any node that still answers
MOST_TASKS = 1 << 22  # processes and threads: PID_MAX_LIMIT
MOST_BYTES = float(1 << 52)  # of memory: what x86 can address
RATE = 1e8  # of anything in a second, for each core: some ten nanoseconds each
_LATE = 1.25  # what a rate may be off by, as counters are read late
_WINDOW = 600  # seconds of a row of samples
_CPU = (0.5, _LATE)
_SHARE = (2.0, 0.0)  # of one: also where two reads were half as far apart as they should be

# By table and column: so much, and so much more for each core. Nothing here is below zero.
LIMITS: dict[str, dict[str, tuple[float, float]]] = {
    "nodes": {"cores": (MOST_CORES, 0), "watched_seconds": (SECONDS * _LATE, 0)},
    "units": {"restarts": (300_000, 0)},  # in five minutes: a process takes a millisecond to start
    "metrics": {
        **{f"cpu_{it}": _CPU for it in ("user", "system", "idle", "iowait", "irq", "softirq", "steal")},
        **dict.fromkeys(("core_system_max", "pressure_cpu", "pressure_io", "pressure_memory", "pressure_irq"), _SHARE),
        **dict.fromkeys(("pgscan_direct", "pgscan_kswapd", "pgsteal_direct", "allocstall", "compact_stall"), (0, RATE)),
        **dict.fromkeys(("pgmajfault", "forks", "context_switches", "nic_resets"), (0, RATE)),
        **dict.fromkeys(("softnet_squeezed", "softnet_dropped"), (0, RATE)),
        **dict.fromkeys(("memory_available_bytes", "slab_unreclaimable_bytes"), (MOST_BYTES, 0)),
        **dict.fromkeys(("memcg_known", "memcg_dying"), (1e8, 0)),  # each holds some kilobytes for every core
        **dict.fromkeys(("procs_running", "procs_blocked"), (MOST_TASKS, 0)),
        "throttled": (0, WAITING),
        "core_saturated_seconds": (20, 0),  # of ten
    },
    "hot_cores": dict.fromkeys(("system", "softirq", "busy"), _SHARE),
    "findings": {
        "broken": (2**31, 0),
        "waited_cores": (0, WAITING),
        "burnt_cores": _CPU,
        "held_bytes": (MOST_BYTES, 0),
        "soon_seconds": (1e12, 0),
    },
    "functions": dict.fromkeys(("self_seconds", "total_seconds"), (60, SECONDS * _LATE)),
    "samples": {"seconds": (60, _WINDOW * _LATE)},
}


@dataclass(frozen=True, slots=True)
class Cores:
    """How many each node has, as it says itself; one that does not say may have all that there can be."""

    nodes: Any = field(default_factory=lambda: np.zeros(0, np.uint64))
    many: Any = field(default_factory=lambda: np.zeros(0))

    def of(self, ids: Any) -> Any:
        if not len(self.nodes):
            return np.full(len(ids), float(MOST_CORES))
        place = np.minimum(np.searchsorted(self.nodes, ids), len(self.nodes) - 1)
        return np.where(self.nodes[place] == ids, self.many[place], float(MOST_CORES))


def cores_in(nodes: pa.Table) -> Cores:
    """Of a table `nodes` that is within reach itself."""
    ids, place = np.unique(nodes["node_id"].to_numpy(), return_inverse=True)
    said = nodes["cores"].to_numpy().astype(np.float64)
    many = np.zeros(len(ids))
    np.maximum.at(many, place, np.nan_to_num(said))
    return Cores(ids, np.where(many > 0, many, float(MOST_CORES)))


def within_reach(name: str, table: pa.Table, cores: Cores) -> tuple[pa.Table, dict[int, str]]:
    """The table, unknown where a figure is beyond reach; and the nodes that sent such figures, with what it was."""
    found: dict[int, str] = {}
    if name not in LIMITS or not table.num_rows:
        return table, found
    ids = table["node_id"].to_numpy()
    many = cores.of(ids)
    for column, (most, each) in LIMITS[name].items():
        values = table[column].to_numpy()
        with np.errstate(invalid="ignore"):
            beyond = (values < 0) | (values > (most + each * many if each else most))
        if not beyond.any():
            continue
        known = pc.if_else(pa.array(~beyond), table[column], None)
        table = table.set_column(table.column_names.index(column), table.schema.field(column), known)
        counts = zip(*np.unique(ids[beyond], return_counts=True), strict=True)
        says = f"{name}: {column} beyond what its cores and the time allow, unknown in {{}} rows"
        found = also(found, {int(node): says.format(rows) for node, rows in counts})
    return table, found


def also(told: dict[int, str], more: dict[int, str]) -> dict[int, str]:
    """What was told of each node, and more of some."""
    return told | {node: "; ".join(filter(None, (told.get(node), why))) for node, why in more.items()}
