"""What a node sends is judged before it is believed: a fault costs its own rows, never another node's."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.fleet.parcels import HOUR, headed, keys_of, mutated, node_in, tables_in, waiting_store

from zombiescope.fleet.hours import Hour
from zombiescope.fleet.parcel import Refused, opened, packed, unpacked
from zombiescope.fleet.schemas import LONGEST_TEXT, TABLES
from zombiescope.members.rooms import Broken, guarded


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, bytes]:
    kept = waiting_store(tmp_path_factory.mktemp("parcels") / "store", nodes=3)
    key = keys_of(kept)[0]
    return node_in(key), kept.read(key)


def _with(content: bytes, **tables: pa.Table) -> bytes:
    """The same parcel with some tables replaced, whatever their columns."""
    whole = opened(content) | tables
    parts = {}
    for name, table in whole.items():
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
        parts[name] = out.getvalue().to_pybytes()
    return headed(b"".join(parts.values()), {name: len(its) for name, its in parts.items()})


def test_what_is_packed_comes_back(sent: tuple[int, bytes]) -> None:
    node, content = sent
    tables, left_out = unpacked(content, node, HOUR)
    assert not left_out
    again = packed(tables)
    assert again == packed(unpacked(again, node, HOUR)[0])
    assert all(table.equals(opened(again)[name]) for name, table in tables.items())
    assert tables.keys() >= {"nodes", "units", "metrics", "samples", "stacks", "functions"}


def test_rows_are_of_the_node_that_sent_them(sent: tuple[int, bytes]) -> None:
    """Whatever node_id they say: the key decides."""
    tables, _ = unpacked(sent[1], 7, HOUR)
    assert all(set(its["node_id"].to_pylist()) == {7} for its in tables.values())


def test_a_clock_that_lies_costs_its_own_rows(sent: tuple[int, bytes]) -> None:
    with pytest.raises(Refused):
        unpacked(sent[1], sent[0], Hour(HOUR.start + 3600))
    metrics = opened(sent[1])["metrics"]
    late = pa.array(metrics["ts"].cast(pa.int64()).to_numpy() + 1_800_000_000).cast(pa.timestamp("us"))
    tables, left_out = unpacked(_with(sent[1], metrics=metrics.set_column(1, "ts", late)), sent[0], HOUR)
    assert tables["metrics"].num_rows == metrics.num_rows // 2
    assert "metrics: 30 rows of other hours" in left_out[0]


def test_texts_are_cut_and_numbers_finite(sent: tuple[int, bytes]) -> None:
    found = opened(sent[1])
    nodes = found["nodes"].set_column(2, "name", pa.array(["x" * 1_000_000]))
    bad = np.full(found["metrics"].num_rows, np.inf, np.float32)
    metrics = found["metrics"].set_column(2, found["metrics"].column_names[2], pa.array(bad))
    tables, _ = unpacked(_with(sent[1], nodes=nodes, metrics=metrics), sent[0], HOUR)
    assert len(tables["nodes"]["name"][0].as_py()) == LONGEST_TEXT
    assert tables["metrics"].column(2).null_count == len(bad)


def test_names_that_are_not_utf8_cost_their_table(sent: tuple[int, bytes]) -> None:
    units = opened(sent[1])["units"]
    raw = pa.array([b"\xff\xfe"] * units.num_rows, pa.binary()).view(pa.string())
    odd = units.set_column(units.column_names.index("unit"), "unit", raw)
    tables, left_out = unpacked(_with(sent[1], units=odd), sent[0], HOUR)
    assert "units" not in tables and "metrics" in tables
    assert left_out[0].startswith("units: ")


def test_other_columns_and_types_are_taken_as_they_can_be(sent: tuple[int, bytes]) -> None:
    """A newer node has more columns, an older one fewer; a wrong type costs the table."""
    metrics = opened(sent[1])["metrics"]
    newer = metrics.append_column("extra", pa.array(range(metrics.num_rows))).drop_columns(["cpu_user"])
    wrong = pa.table({"ts": ["never"] * 3})
    tables, left_out = unpacked(_with(sent[1], metrics=newer, events=wrong), sent[0], HOUR)
    assert tables["metrics"].schema.equals(TABLES["metrics"].schema)
    assert tables["metrics"]["cpu_user"].null_count == metrics.num_rows
    assert [it.partition(":")[0] for it in left_out] == ["events"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"{}\nx",
        b"[" * 5000,
        b"{" + b" " * 100_000,
        headed(b"", {}),
        headed(b"x" * 100, {"nodes": 100}),
        headed(b"x" * 100, {"nodes": -1, "units": 101}),
        headed(b"\0" * 1000, {"nodes": 10**12}, 10**12),
        headed(b"\0" * 1000, {"nodes": 500}, 500),
    ],
)
def test_what_is_no_parcel_is_refused(content: bytes) -> None:
    with pytest.raises(Refused):
        unpacked(content, 1, HOUR)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(Refused, match="larger"):
        opened(headed(b"\0" * (200 << 20), {"nodes": 200 << 20}))


def test_a_table_of_a_thousand_hours_is_refused(sent: tuple[int, bytes]) -> None:
    events = opened(sent[1])["nodes"]
    with pytest.raises(Refused, match="rows"):
        opened(_with(sent[1], nodes=pa.concat_tables([events] * 100)))


def test_damage_is_refused_or_harmless(sent: tuple[int, bytes], tmp_path: Path) -> None:
    """In a process of its own, as a compactor does it: Arrow itself may give up on some of it."""
    from zombiescope.fleet.apart import done_apart

    draw = random.Random(11)
    files = [mutated(sent[1], draw) for _ in range(100)]
    raw = [bytes(draw.randrange(256) if draw.random() < 0.01 else it for it in sent[1]) for _ in range(5)]

    def work() -> None:
        outcomes = [guarded(lambda it=it: _tried(it, sent[0])) for it in [*files, *raw]]  # type: ignore[misc]
        (tmp_path / "outcomes").write_text(json.dumps([it.why if isinstance(it, Broken) else it for it in outcomes]))

    assert done_apart(work)
    outcomes = json.loads((tmp_path / "outcomes").read_text())
    assert set(outcomes) <= {"refused", "in part", "whole"}
    assert outcomes[-5:] == ["refused"] * 5


def _tried(content: bytes, node: int) -> str:
    try:
        tables, left_out = unpacked(content, node, HOUR)
    except Refused:
        return "refused"
    packed(tables)  # and what is left is sound
    return "in part" if left_out else "whole"


def test_a_parcel_of_a_day_is_small(tmp_path: Path) -> None:
    """5 MB a node-day is what it may be; with readings every ten seconds."""
    from zombiescope.fleet.simulated.fleet import simulate

    simulate(str(tmp_path / "s"), 20, 1, 3, "incident", every=10, parcels=True)
    from zombiescope.fleet.store import Folder

    kept = Folder(str(tmp_path / "s"))
    sizes = [len(kept.read(key)) for key in keys_of(kept)]
    assert tables_in(kept, keys_of(kept)[0])["metrics"].num_rows == 360
    assert max(sizes) * 24 < 5_000_000
