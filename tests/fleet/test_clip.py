"""A clip is a recording again, around the worst moment; small, only where somebody was harmed, and never trusted."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from tests.fleet.fleets import opened
from tests.fleet.hourly import recording
from tests.fuzzing import damaged

from zombiescope.__main__ import main
from zombiescope.core import Span, UserError
from zombiescope.diagnosis.examine import examine
from zombiescope.fleet.clip import MAGIC, clipped, unpack
from zombiescope.fleet.schemas import MOST_CLIP
from zombiescope.members.rooms import Broken, guarded
from zombiescope.recorder import replay

RECORDINGS = Path(__file__).parent.parent / "data" / "recordings"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips") / "s"
    assert main(["fleet", "gather", "--store", str(folder), str(RECORDINGS), "--clips"]) == 0
    return folder


def test_a_clip_is_a_recording_of_the_worst_moment(store: Path, tmp_path: Path) -> None:
    fleet = opened(store)
    rows = fleet.rows("SELECT reason, samples, octet_length(content), epoch(started), epoch(ended) FROM clips")
    ((reason, samples, size, started, ended),) = rows
    ((broke,),) = fleet.rows("SELECT min(epoch(ts)) FROM events")
    assert reason.startswith("crash_looping_unit: ") and samples > 0 and size <= MOST_CLIP
    assert started < broke < ended and ended - started <= 60
    folder = tmp_path / "clip"
    assert main(["fleet", "clip", "--store", str(store), "n", "-o", str(folder)]) == 0
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {it.stat().st_mode & 0o777 for it in folder.rglob("*") if it.is_file()} == {0o600}
    found = replay.opened(str(folder))
    assert found.meta["node"] == "n" and found.table("samples").num_rows == samples and not found.damage
    timeline = found.timeline(Span(started, ended))
    assert any(it.name == "css_rstat_flush" for it in timeline.samples(timeline.span).frames.functions)
    assert "driver_reset" in {it.sign for it in examine(found.timeline()).findings}
    assert main(["fleet", "clip", "--store", str(store), "n", "-o", str(folder)]) == 2  # it is there already


def test_who_sent_none_is_said(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "clip", "--store", str(store), "other", "-o", str(tmp_path / "x")]) == 2
    assert "other: it sent no clip in this range" in capsys.readouterr().err


def test_without_harm_and_without_the_option_there_is_none(tmp_path: Path) -> None:
    recording(tmp_path / "quiet", 1_794_000_000 // 3600 * 3600, 1, "quiet")
    for name, words in (("a", [str(tmp_path / "quiet"), "--clips"]), ("b", [str(RECORDINGS)])):
        assert main(["fleet", "gather", "--store", str(tmp_path / name), *words]) == 0
        assert opened(tmp_path / name).rows("SELECT count(*) FROM clips") == [(0,)]


def _head(**changed: object) -> bytes:
    files = dict.fromkeys(("series", "events", "samples", "stacks"), 0)
    head = {"format": MAGIC, "meta": {"format": 2}, "segment": "1794000000", "files": files} | changed
    return json.dumps(head).encode() + b"\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"[" * 9999 + b"\n",
        _head(format="x"),
        _head(segment="../../../x"),
        _head(segment="/etc/passw"),
        _head(segment=["1794000000"]),
        _head(meta=[]),
        _head(files={"../x": 0}),
        _head(files={"series": 5, "events": -5, "samples": 0, "stacks": 0}),
        _head(files={"series": 5, "events": 0, "samples": 0, "stacks": 0}),
        _head() + b"x",
        _head(files={"series": MOST_CLIP, "events": 0, "samples": 0, "stacks": 0}) + b"x" * MOST_CLIP,
    ],
)
def test_what_is_no_clip_writes_nothing(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a clip"):
        unpack(content, str(tmp_path / "c"))
    assert not (tmp_path / "c").exists()


def test_damaged_clips_are_refused_or_read_as_damaged(store: Path, tmp_path: Path) -> None:
    content = bytes(opened(store).rows("SELECT content FROM clips")[0][0])
    draw, read = random.Random(9), 0
    for number in range(int(os.environ.get("ZOMBIESCOPE_FUZZ", "60"))):
        folder = tmp_path / str(number)

        def tried(folder: Path = folder) -> bool:
            unpack(damaged(content, draw, _flipped, skip=2000, in_place=True), str(folder))
            replay.opened(str(folder)).timeline()
            return True

        try:
            outcome = guarded(tried)
        except UserError:
            continue
        assert not isinstance(outcome, Broken), outcome.why
        read += 1
    assert read > 5


def _flipped(data: bytearray, at: int, draw: random.Random) -> None:
    if data:
        data[at] = draw.randrange(256)


def test_a_clip_of_a_time_that_was_not_recorded_is_none() -> None:
    found = replay.opened(str(RECORDINGS / "incident-0.1"))
    assert clipped(found, found.span.start - 9_999)[0] == b""
