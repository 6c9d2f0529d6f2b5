"""Questions whose parts are asked elsewhere have the same answer: in any number of parts, and on a real Ray cluster."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.fleet import two_ray_nodes
from tests.fleet.fleets import made
from tests.peers import free_port
from tests.ray_namespaces import contained, needs_ray, told
from tests.waiting import HANGS

from zombiescope.core import UserError
from zombiescope.fleet import reading, store
from zombiescope.fleet.features import make_features
from zombiescope.fleet.flame import ELSEWHERE, flame
from zombiescope.fleet.hours import INCOMING, Hour, parcel_key
from zombiescope.fleet.parcel import opened, packed
from zombiescope.fleet.partial_sums import Question, answer_of_part, by_files, by_nodes
from zombiescope.fleet.ray_cluster import RayCluster, answers
from zombiescope.fleet.reading import Fleet
from zombiescope.fleet.simulated.fleet import START, simulate
from zombiescope.fleet.simulated.real_nodes import moved

NODES, HOURS, WAITING = 120, 3, 10


@dataclass(frozen=True)
class Pieces:
    """Every part in this process, one after the other."""

    many: int

    def asked(self, fleet: Fleet, question: Question) -> Sequence[pa.Table]:
        parts = (by_nodes if question.by_node else by_files)(fleet, question.table, self.many)
        return [answer_of_part(fleet.store.url, question, it) for it in parts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some hours that are joined already, and an hour of which some nodes' parcels wait for it."""
    root = tmp_path_factory.mktemp("parts")
    where, _ = made(str(root), "incident", NODES, HOURS, 4)
    simulate(str(root / "more"), NODES, 1, 4, "incident", every=300, parcels=True)
    later = Hour(START + HOURS * 3600)
    kept = store.opened(str(where))
    for key in sorted(store.opened(str(root / "more")).keys(INCOMING))[:: NODES // WAITING]:
        node = int(key.rpartition("/")[2].partition(".")[0], 16)
        moved = _moved(store.opened(str(root / "more")).read(key), later.start - START)
        assert kept.create(parcel_key(later, node), moved)
    return where


def _moved(content: bytes, seconds: int) -> bytes:
    """The same parcel, so many seconds later."""
    return packed({name: moved(table, seconds) for name, table in opened(content).items()})


def _fleet(folder: Path, many: int = 0) -> Fleet:
    if not many:
        return reading.opened(store.opened(str(folder)))
    return reading.opened(store.opened(str(folder)), engine=Pieces(many), elsewhere=ELSEWHERE)


def test_a_difference_of_stacks_is_the_same_to_the_last_digit(folder: Path) -> None:
    whole = flame(_fleet(folder))
    assert len(whole["stacks"]) > 100 and whole["functions"]
    for many in (1, 2, 5):
        assert flame(_fleet(folder, many)) == whole


def test_features_are_the_same_but_for_rounding(folder: Path) -> None:
    tables = []
    for many in (0, 3):
        fleet = _fleet(folder, many)
        make_features(fleet)
        tables.append(fleet.table("SELECT * EXCLUDE (labels) FROM node_features ORDER BY node_id"))
    whole, parts = tables
    assert whole.num_rows > 0.9 * NODES and whole.schema == parts.schema
    assert sum(whole["readings"].to_pylist()) == fleet.rows("SELECT count(*) FROM node_hours")[0][0] * 12
    for name in whole.column_names:
        if pa.types.is_floating(whole.schema.field(name).type):
            its = [it[name].to_numpy(zero_copy_only=False) for it in tables]
            np.testing.assert_allclose(its[0], its[1], rtol=1e-9)
        else:
            assert whole[name].equals(parts[name])


def test_the_percentile_is_the_exact_one(folder: Path) -> None:
    fleet = _fleet(folder)
    make_features(fleet)
    exact = "SELECT node_id, quantile_cont(pressure_cpu, 0.99), regr_slope(memcg_dying, epoch(ts)) * 3600 FROM metrics"
    found = fleet.rows("SELECT node_id, cpu_pressure_99, dying_per_hour FROM node_features ORDER BY 1")
    assert len(found) > 0.9 * NODES
    for one, other in zip(found, fleet.rows(f"{exact} GROUP BY 1 ORDER BY 1"), strict=True):
        assert one == pytest.approx(other, rel=1e-6)


def test_what_cannot_be_time_counts_for_nobody(tmp_path: Path) -> None:
    """A sick node that claims a stack of a million years takes nothing from the others' shares."""
    simulate(str(tmp_path / "s"), 80, 1, 4, "incident", every=600, parcels=True)
    kept = store.opened(str(tmp_path / "s"))
    fleet = reading.opened(kept)
    honest = flame(fleet)
    key = parcel_key(Hour(START), fleet.rows("SELECT min(node_id) FROM findings WHERE role = 'root'")[0][0])
    tables = opened(kept.read(key))
    for table, column in (("samples", "seconds"), ("functions", "self_seconds")):
        place, its = tables[table].column_names.index(column), tables[table]
        extra = its.slice(0, 1).set_column(place, column, pa.array([3e38], pa.float32()))
        tables[table] = pa.concat_tables([its, extra])
    kept.remove(key)
    assert kept.create(key, packed(tables))
    assert flame(reading.opened(kept)) == honest


@contextmanager
def _door(says: bytes | None) -> Iterator[int]:
    """Takes connections, and says that to each; None: nothing, ever."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            with suppress(OSError), ExitStack() as taken:
                while True:
                    one = taken.enter_context(door.accept()[0])
                    if says is not None:
                        one.sendall(says)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield door.getsockname()[1]
        door.shutdown(socket.SHUT_RDWR)
        serving.join()


def test_an_address_that_is_no_cluster_is_said_at_once() -> None:
    """Only who does not answer is waited for."""
    with pytest.raises(UserError, match="connection refused"):
        answers("127.0.0.1", free_port(), HANGS)
    with _door(None) as port, pytest.raises(UserError, match=r"no answer in 0\.3 s"):
        answers("127.0.0.1", port, 0.3)
    with (
        _door(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port,
        pytest.raises(UserError, match="not Ray's control service"),
    ):
        answers("127.0.0.1", port, HANGS)
    with _door(b"\0\0\0\x04\0\0\0\0\0") as port:
        answers("127.0.0.1", port, HANGS)


@pytest.mark.parametrize("address", ["", "ray://head:10001", "head", "head:0", "head:99999", "-x:1 --y", "h\n:1"])
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(UserError, match="give HOST:PORT"):
        RayCluster(address)


def test_without_ray_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'zombiescope\[ray\]'"):
        RayCluster("auto")


@pytest.mark.long
@pytest.mark.kernel
@needs_ray
def test_two_nodes_answer_the_same_also_when_workers_are_killed(tmp_path: Path) -> None:
    """A real cluster; half a minute of it is Ray's own start."""
    where, _ = made(str(tmp_path), "incident", 300, 8, 6)
    script = Path(two_ray_nodes.__file__)
    with contained(tmp_path, script, str(where)) as process:
        for name in two_ray_nodes.QUESTIONS:
            assert told(process.stdout, "asked") == [name, "same"]
            kind, same, killed = told(process.stdout, "killed")
            assert (kind, same) == (name, "same") and int(killed) > 0
