"""A recording from a stranger: whatever it claims, it is opened within bounds or refused in one line."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import COMMAND, Run
from tests.recorder.heads import AHEAD, SECOND, Head

from zombiescope.core import UserError
from zombiescope.recorder import raw_heads, readings
from zombiescope.recorder.arrow_stream import extent
from zombiescope.recorder.head import SAMPLE
from zombiescope.recorder.meta import MOST_BYTES
from zombiescope.recorder.replay import MOST_FILE, MOST_SEGMENTS, MOST_TOTAL, opened
from zombiescope.recorder.schemas import SCHEMAS, WHOLE
from zombiescope.recorder.segment import as_batch
from zombiescope.recorder.settle import settled

AT = AHEAD / SECOND
META = {"format": 1, "hz": 49, "node": "n", "kernel": "6.18", "gives": {"stat": ["load"]}}


def recording(folder: Path, **meta: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "meta.json").write_text(json.dumps(META | meta))
    return folder


def rows(count: int) -> pa.RecordBatch:
    words = {name: ["load"] * count for name in ("what", "subject", "source", "text")}
    return as_batch("series", {"at": [10**18] * count, "value": [0.0] * count, **words})


def write(path: Path, batch: pa.RecordBatch, times: int) -> None:
    path.parent.mkdir(exist_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, batch.schema, options=WHOLE) as stream:
        for _ in range(times):
            stream.write_batch(batch)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    folder = recording(tmp_path / "rec")
    batch = rows(2_000_000)  # 64 MB, of which some KB stay
    write(folder / "1794000000" / "series.arrows", batch, 20)
    assert (folder / "1794000000" / "series.arrows").stat().st_size < 1 << 20
    for argv in (["info"], ["diagnose"], ["view", "-o", str(tmp_path / "page.html")]):
        done = subprocess.run(
            [COMMAND, argv[0], str(folder), *argv[1:]], capture_output=True, text=True, preexec_fn=limited, check=False
        )
        assert done.returncode == 2 and "when unpacked" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1


def test_many_that_are_large_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recording(tmp_path / "rec")
    for number in range(5):
        write(folder / f"179400000{number}" / "series.arrows", rows(100_000), 1)
    found = opened(str(folder))
    assert found.table("series").num_rows == 500_000 and MOST_TOTAL > MOST_FILE
    monkeypatch.setattr("zombiescope.recorder.replay.MOST_TOTAL", 10 << 20)
    with pytest.raises(UserError, match="choose a part with --from and --to"):
        found.table("series")


def test_what_the_walk_says_is_what_arrow_unpacks(tmp_path: Path) -> None:
    for count in (0, 1, 7, 1000):
        write(tmp_path / "x.arrows", rows(count), 3)
        content = (tmp_path / "x.arrows").read_bytes()
        found = extent(content)
        assert found.end == len(content) and not found.torn and not found.damage
        table = pa.ipc.open_stream(content).read_all()
        assert abs(found.unpacked - sum(batch.nbytes for batch in table.to_batches())) < 200 * 3


def test_damaged_bytes_anywhere_never_crash_and_never_unpack_more(tmp_path: Path) -> None:
    folder = recording(tmp_path / "rec")
    path = folder / "1794000000" / "series.arrows"
    write(path, rows(50), 3)
    whole, rng = path.read_bytes(), random.Random(1)
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(rng.choice((1, 3, 20))):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content[: rng.choice((len(content), rng.randrange(len(content))))])
        try:
            assert opened(str(folder)).table("series").num_rows <= 150
        except UserError as error:
            assert "when unpacked" in str(error)


def test_other_columns_are_damage(tmp_path: Path) -> None:
    folder = recording(tmp_path / "rec")
    batch = pa.record_batch({"at": pa.nulls(10**9), "what": pa.nulls(10**9)})  # a billion rows of nothing
    write(folder / "1794000000" / "series.arrows", batch, 1)
    found = opened(str(folder))
    assert found.table("series").num_rows == 0
    assert "not the columns of series" in found.damage[0]


def test_indices_that_lead_nowhere_are_damage(tmp_path: Path) -> None:
    folder = recording(tmp_path / "rec")
    good = rows(3)
    wild = pa.DictionaryArray.from_arrays(pa.array([0, 10**6, 0], pa.int32()), pa.array(["load"]), safe=False)
    columns = [wild if name == "what" else good[name] for name in SCHEMAS["series"].names]
    write(folder / "1794000000" / "series.arrows", pa.record_batch(columns, schema=SCHEMAS["series"]), 1)
    found = opened(str(folder))
    assert found.timeline().whats() == [] and found.damage


def test_a_fifo_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, zombiescope: Run) -> None:
    folder = recording(tmp_path / "rec")
    (folder / "1794000000").mkdir()
    for name in ("series.arrows", "events.head.arrows"):
        os.mkfifo(folder / "1794000000" / name)
    os.mkfifo(folder / "1794000001")
    done = zombiescope("info", str(folder), expect=0)
    assert "not a regular file" in done.stdout


@pytest.mark.parametrize(
    "meta",
    [
        {"gives": {"stat": "load"}},
        {"gives": ["load"]},
        {"gives": {"stat": [1]}},
        {"hz": "often"},
        {"format": "x" * 500_000},
    ],
)
def test_a_meta_of_another_shape_is_told_in_one_line(tmp_path: Path, meta: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"meta\.json") as told:
        opened(str(recording(tmp_path / "rec", **meta)))
    assert len(str(told.value)) < 400


def test_a_meta_without_end_is_refused(tmp_path: Path) -> None:
    folder = recording(tmp_path / "rec", padding="x" * MOST_BYTES)
    with pytest.raises(UserError, match="larger than"):
        opened(str(folder))
    (folder / "meta.json").write_text("[" * 500_000)
    with pytest.raises(UserError, match="not valid JSON"):
        opened(str(folder))


def test_segments_without_number_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recording(tmp_path / "rec")
    for number in range(30):
        (folder / f"17940000{number:02}").mkdir()
    assert len(opened(str(folder)).segments) == 30 < MOST_SEGMENTS
    monkeypatch.setattr("zombiescope.recorder.replay.MOST_SEGMENTS", 20)
    with pytest.raises(UserError, match="more than 20 segments"):
        opened(str(folder))


READ = """import sys
from zombiescope.recorder.replay import opened
opened(sys.argv[1]).table("series")
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_a_sample_of_json_that_takes_thirty_times_its_size_is_not_read(tmp_path: Path) -> None:
    folder, head = recording(tmp_path / "rec", format=2, events=[]), Head()
    head.writer.put(SAMPLE, head.writer.source({"probe": "processes"}, 0), 0, b"[" + b"[]," * (20 << 20) + b"[]]")
    (folder / "1794000000").mkdir()
    (folder / "1794000000" / "head").write_bytes(head.bytes())
    said = subprocess.run([sys.executable, "-W", "ignore", "-c", READ, folder], stdout=subprocess.PIPE, check=True)
    assert int(said.stdout) < 400 << 10, "KB; as Python's lists it is 1.6 GB"
    assert settled(head.bytes(), META).damage == ["probe processes: a sample that is not understood"]


def test_more_readings_than_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "MOST_BYTES", 100_000)
    head = Head()
    for at in range(10):
        head.sample("processes", float(at), [("load", f"pid:{it}", at, AT, "/x", "") for it in range(at * 100)])
    found = settled(head.bytes(), META)
    (why,) = found.damage
    assert (
        why.endswith("readings of load were left out: too many for one segment")
        and int(why.split()[0].replace(",", "")) > 4000
    )
    assert 100 < found.table("series").num_rows < 1000
    assert [it["text"] for it in found.table("events").to_pylist()] == [why], "that is said however much there is"


def test_what_a_probe_reads_is_parsed_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    head = Head()
    head.fetched("vmstat", 1.0, b"pgscan 1\n")
    head.fetched("vmstat", 2.0, b"x" * (readings.MOST_FETCHED + 1))
    found = settled(head.bytes(), META)
    assert found.damage == ["probe vmstat: 4,194,305 bytes: more than is parsed"]
    monkeypatch.setattr(readings, "MOST_READINGS", 3)
    head = Head()
    head.fetched("meminfo", 1.0, Path("/proc/meminfo").read_bytes())
    rows_of = settled(head.bytes(), META | {"gives": {"meminfo": ["memory_free_bytes"]}}).table("series").to_pylist()
    assert [(it["what"], it["text"]) for it in rows_of] == [("looked", "more than 3 readings at once")]


def test_a_head_larger_than_any_recorder_s_is_refused(tmp_path: Path) -> None:
    folder = recording(tmp_path / "rec", format=2)
    (folder / "1794000000").mkdir()
    with open(folder / "1794000000" / "head", "wb") as file:
        file.truncate(raw_heads.MOST_BYTES + 1)
    with pytest.raises(UserError, match="a recorder ends a head far earlier: refused"):
        opened(str(folder)).timeline()


def test_what_is_under_a_null_is_never_looked_up(tmp_path: Path) -> None:
    """Arrow does, when it joins the dictionaries of two segments: far beyond their ends."""
    folder = recording(tmp_path / "rec")
    for number, word in enumerate(("load", "other")):
        good = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array([word]))
        wild = pa.array(np.array([-(10**8), 0], np.int32), mask=np.array([True, False]))
        bad = pa.DictionaryArray.from_arrays(wild, pa.array([word]))
        at = pa.array([10**18 + number, 10**18 + number + 1])
        columns = {"at": at, "what": good, "subject": good, "value": pa.array([1.0, 2.0]), "source": bad, "text": bad}
        batch = pa.record_batch([columns[it.name] for it in SCHEMAS["series"]], schema=SCHEMAS["series"])
        write(folder / f"{1794000000 + 120 * number}" / "series.arrows", batch, 1)
    ask = "import sys; from zombiescope.recorder.replay import opened as it; print(it(sys.argv[1]).timeline().span.end)"
    command = [sys.executable, "-c", ask, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "1000000000.0\n"), done.stderr
