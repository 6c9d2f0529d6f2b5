"""The tables of a fleet: what a node gives of each hour, with the type of every column.

Times are UTC, in microseconds. `node_id` is a hash of the node's name and machine, so nobody has to hand out numbers.
Columns may be added; one that an older node does not send is empty. Limits are for what a node may send for one hour:
an honest node of 192 cores stays far below them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pyarrow as pa

VERSION = "v1"
LONGEST_TEXT = 400  # characters of a text or a name; a longer one is cut
MOST_LABELS = 64  # of one node
MOST_CLIP = 1 << 20  # bytes of one clip: half a minute of stacks of most nodes, seconds of the largest
_TIME = pa.timestamp("us")
_ID = pa.uint64()
_NAME = pa.string()
_F = pa.float32()
_LABELS = pa.map_(pa.string(), pa.string())

# Rates are per second, CPU times in cores' worth, averaged over the ten seconds; `core_` is the busiest core.
METRICS = (
    *("core_system_max", "core_saturated_seconds", "cpu_user", "cpu_system", "cpu_idle", "cpu_iowait"),
    *("cpu_irq", "cpu_softirq", "cpu_steal", "memcg_known", "memcg_dying", "pgscan_direct", "pgscan_kswapd"),
    *("pgsteal_direct", "allocstall", "compact_stall", "pgmajfault", "throttled", "pressure_cpu", "pressure_io"),
    *("pressure_memory", "pressure_irq", "procs_running", "procs_blocked", "forks", "context_switches"),
    *("softnet_squeezed", "softnet_dropped", "memory_available_bytes", "slab_unreclaimable_bytes"),
    *("conntrack_entries", "nic_resets"),
)
COUNTS = ("memcg_known", "memcg_dying", "procs_running", "procs_blocked", "conntrack_entries")  # whole numbers


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its columns, how rows are sorted, and how many a node may send for an hour."""

    schema: pa.Schema
    order: tuple[str, ...]
    most: int
    tier: str = "summary"  # how long it is kept: summary, detail


def _table(most: int, order: str, tier: str = "summary", /, **columns: pa.DataType) -> Table:
    return Table(pa.schema([("node_id", _ID), *columns.items()]), tuple(order.split()), most, tier)


TABLES: dict[str, Table] = {
    # One row a node and hour: what it is, how long it was watched, which signs could not be checked.
    "nodes": _table(
        16,
        "node_id ts",
        ts=_TIME,
        **dict.fromkeys(("name", "zone", "image", "kernel", "instance_type"), _NAME),
        cores=pa.int32(),
        boot=_NAME,
        labels=_LABELS,  # also driver:NAME and package:NAME with their versions
        watched_seconds=_F,
        blind=pa.list_(pa.string()),
    ),
    "units": _table(
        20_000,
        "node_id ts unit",
        ts=_TIME,
        unit=_NAME,
        enabled=pa.bool_(),
        active=pa.bool_(),
        restarts=pa.int32(),  # in this stretch of five minutes
    ),
    "metrics": _table(
        720,
        "node_id ts",
        "detail",
        ts=_TIME,
        **{name: pa.int32() if name in COUNTS else _F for name in METRICS},
        core_system_max_cpu=pa.int16(),
    ),
    "hot_cores": _table(200_000, "node_id ts cpu", "detail", ts=_TIME, cpu=pa.int16(), system=_F, softirq=_F, busy=_F),
    "events": _table(20_000, "node_id ts", ts=_TIME, kind=_NAME, subject=_NAME, detail=_NAME),
    "findings": _table(
        5_000,
        "node_id started",
        started=_TIME,
        ended=_TIME,
        sign=_NAME,
        subject=_NAME,
        role=_NAME,  # root: accused; effect: explained by one; unexplained; noted; unsure; past
        says=_NAME,
        broken=pa.int32(),
        waited_cores=_F,
        burnt_cores=_F,
        held_bytes=pa.float64(),
        soon_seconds=pa.float64(),
    ),
    "functions": _table(
        100_000, "node_id function ts", ts=_TIME, function=pa.int64(), self_seconds=_F, total_seconds=_F
    ),
    "function_names": _table(200_000, "function", function=pa.int64(), name=_NAME, module=_NAME, kernel=pa.bool_()),
    "samples": _table(400_000, "node_id stack ts", "detail", ts=_TIME, comm=_NAME, stack=pa.int64(), seconds=_F),
    "stacks": _table(200_000, "stack", "detail", stack=pa.int64(), functions=pa.list_(pa.int64())),
    "jobs": _table(
        50_000, "node_id started", started=_TIME, ended=_TIME, job=_NAME, kind=_NAME, outcome=_NAME, detail=_NAME
    ),
    # A small cut of the recording around what harmed most in the hour, if the node is asked for it: see clip.py.
    "clips": _table(
        2,
        "node_id started",
        "detail",
        started=_TIME,
        ended=_TIME,
        reason=_NAME,
        samples=pa.int64(),
        content=pa.binary(),
    ),
}
OUTCOMES = ("succeeded", "failed", "cancelled")
NAMES_ONCE = {"function_names": "function", "stacks": "stack"}  # tables whose rows are the same on every node


def node_id(name: str, machine: str = "") -> int:
    """Cloned machines share their machine-id, and names come back: so both count. A reboot changes neither."""
    words = f"{name}\0{machine}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "big")


def function_id(name: str, module: str, *, kernel: bool) -> int:
    """The same on every node. Signed: the readers of Parquet agree on that."""
    words = f"{name}\0{module}\0{kernel:d}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "little", signed=True)


def stack_id(functions: bytes) -> int:
    """By the ids of its functions, outermost first, eight bytes each."""
    return int.from_bytes(hashlib.blake2b(functions, digest_size=8).digest(), "little", signed=True)


def empty(table: str) -> pa.Table:
    return TABLES[table].schema.empty_table()
