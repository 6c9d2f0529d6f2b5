"""Compaction: nothing lost, nothing doubled, whoever is killed and whoever else compacts."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.fleet.fleets import opened
from tests.fleet.parcels import HOUR, keys_of, node_in, waiting_store

from zombiescope.core import UserError
from zombiescope.fleet import compaction, manifest
from zombiescope.fleet.compaction import compact, read_parcels, waiting, written
from zombiescope.fleet.hours import Hour, manifest_key, parcel_key
from zombiescope.fleet.manifest import Manifest
from zombiescope.fleet.parcel import opened as parcel
from zombiescope.fleet.parcel import packed
from zombiescope.fleet.schemas import TABLES
from zombiescope.fleet.store import Folder


def _counts(kept: Folder) -> dict[str, int]:
    fleet = opened(kept.folder)
    return {
        table: fleet.rows(f"SELECT count(*) FROM {'node_hours' if table == 'nodes' else table}")[0][0]
        for table in TABLES
    }


def test_questions_have_the_same_answer_before_and_after(tmp_path: Path) -> None:
    kept = waiting_store(tmp_path / "s", hours=2)
    before = _counts(kept)
    assert before["metrics"] > 0
    done = compact(kept)
    assert (done.hours, done.refused, done.lost) == (2, 0, 0)
    assert done.parcels == len(keys_of(kept))
    assert not waiting(kept)
    after = _counts(kept)
    assert {name: many for name, many in after.items() if name not in ("stacks", "function_names")} == {
        name: many for name, many in before.items() if name not in ("stacks", "function_names")
    }
    assert compact(kept).hours == 0


def test_the_same_hour_counts_once(tmp_path: Path) -> None:
    kept = waiting_store(tmp_path / "s")
    before = _counts(kept)
    compact(kept)
    key = keys_of(kept)[0]
    assert not kept.create(key, kept.read(key))
    kept.remove(key)
    assert kept.create(key, b"something else, later")
    compact(kept)
    assert _counts(kept)["metrics"] == before["metrics"]


def test_a_late_parcel_is_added(tmp_path: Path) -> None:
    kept = waiting_store(tmp_path / "s")
    late = keys_of(kept)[0]
    content = kept.read(late)
    kept.remove(late)
    compact(kept)
    before = _counts(kept)["nodes"]
    kept.create(late, content)
    assert _counts(kept)["nodes"] == before + 1  # waiting, and counted
    compact(kept)
    assert _counts(kept)["nodes"] == before + 1


def test_two_compactors_at_once_double_nothing(tmp_path: Path) -> None:
    kept = waiting_store(tmp_path / "s")
    nodes = [node_in(key) for key in keys_of(kept)]
    tables, _ = read_parcels(kept, HOUR, nodes)
    first, second = (written(kept, HOUR, tables, nodes, {}) for _ in range(2))
    assert manifest.commit(kept, first)
    assert not manifest.commit(kept, second)
    assert _counts(kept)["nodes"] == len(nodes)
    assert manifest.newest_of(kept, HOUR).number == 1


def test_compactors_of_other_parcels_both_count(tmp_path: Path) -> None:
    kept = waiting_store(tmp_path / "s")
    nodes = [node_in(key) for key in keys_of(kept)]
    for part in (nodes[:5], nodes[5:]):
        tables, _ = read_parcels(kept, HOUR, part)
        assert manifest.commit(kept, written(kept, HOUR, tables, part, {}))
    assert _counts(kept)["nodes"] == len(nodes)


def test_a_compactor_killed_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    kept = waiting_store(tmp_path / "s", nodes=6)
    expected = _counts(kept)["metrics"]
    for wait in (0.0, 0.05, 0.2):
        pid = os.fork()
        if not pid:
            try:
                compact(kept)
            finally:
                os._exit(0)
        time.sleep(wait)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert _counts(kept)["metrics"] == expected
    compact(kept)
    assert _counts(kept)["metrics"] == expected


def test_a_poisoned_node_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage is refused with its reason; what takes its reader down is found and left out."""
    kept = waiting_store(tmp_path / "s")
    keys = keys_of(kept)
    garbage, deadly = node_in(keys[0]), node_in(keys[1])
    kept.remove(keys[0])
    kept.create(keys[0], os.urandom(5_000))
    real, poison = parcel, kept.read(keys[1])

    def crashing(content: bytes) -> dict[str, pa.Table]:
        if content == poison:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(content)

    monkeypatch.setattr(compaction, "opened", crashing)
    compact(kept)
    monkeypatch.undo()
    assert _counts(kept)["nodes"] == len(keys) - 2
    refused = manifest.newest_of(kept, HOUR).refused
    assert refused.keys() == {garbage, deadly}
    assert "crashes" in refused[deadly]


def test_a_node_cannot_rename_functions_for_others(tmp_path: Path) -> None:
    kept = waiting_store(tmp_path / "s", nodes=4)
    key = keys_of(kept)[0]
    tables = parcel(kept.read(key))
    names = tables["function_names"]
    liar = names.set_column(names.column_names.index("name"), "name", pa.array(["evil"] * names.num_rows))
    stacks = tables["stacks"]
    upside = pa.array([it[::-1] for it in stacks["functions"].to_pylist()], stacks.schema.field("functions").type)
    false = stacks.set_column(stacks.column_names.index("functions"), "functions", upside)
    kept.remove(key)
    kept.create(key, packed(tables | {"function_names": liar, "stacks": false}))
    compact(kept)
    fleet = opened(kept.folder)
    assert fleet.rows("SELECT count(*), count(*) FILTER (name = 'evil') FROM function_names")[0][1] == 0
    rows = fleet.rows("SELECT stack, count(*) FROM stacks GROUP BY 1")
    assert len(rows) == stacks.num_rows and {many for _, many in rows} == {1}
    assert fleet.rows("SELECT functions FROM stacks WHERE stack = ?", [stacks["stack"][0].as_py()])[0][0] == (
        stacks["functions"][0].as_py()
    )


def test_a_clock_that_is_ahead_does_not_hide_the_others(tmp_path: Path) -> None:
    kept = waiting_store(tmp_path / "s", hours=2)
    node = node_in(keys_of(kept)[0])
    kept.create(parcel_key(Hour(HOUR.start + 1000 * 3600), node), b"from the future")
    fleet = opened(kept.folder)
    assert [it.start for it in fleet.hours] == [HOUR.start, HOUR.start + 3600]
    assert set(fleet.ahead) == {node}


@pytest.mark.parametrize(
    "key", ["/etc/passwd", "../../x.parquet", "v1/nodes/../../../x/bucket=00/a.parquet", "manifests/x"]
)
def test_a_manifest_names_files_of_its_own_hour_alone(tmp_path: Path, key: str) -> None:
    """Who may write to the store must not choose which file of a reader's machine is read or written."""
    kept = waiting_store(tmp_path / "s", hours=1)
    compact(kept)
    ((hour, good),) = manifest.all_of(kept).items()
    evil = Manifest(hour, good.number + 1, {**good.files, "nodes": (key,)}, good.nodes)
    assert kept.create(manifest_key(hour, evil.number), evil.to_json())
    with pytest.raises(UserError, match="not a manifest"):
        manifest.all_of(kept)
