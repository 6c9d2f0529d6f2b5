"""pprof in and out: every kind of label, inlined functions, damage; and what Go's own tool makes of ours."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.profile.captures import Row, capture

from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Function, Samples, Who
from zombiescope.profile import pprof
from zombiescope.profile.chosen import Chosen
from zombiescope.profile.exports import pprof as export
from zombiescope.profile.picture import Picture
from zombiescope.profile.wire import message, number, packed

MAIN, READ = Function("main", False, "/bin/x"), Function("vfs_read", True)
HOOK = Function("nf_hook", True, "nf_conntrack")
ROWS: list[Row] = [
    (10, 0, Who(7, "kubelet", "/kubepods/a"), (MAIN, READ, HOOK), 5),
    (20, 1, Who(7, "kubelet", "/kubepods/a"), (MAIN, READ), 3),
    (30, 1, Who(8, "java"), (MAIN,), 2),
    (40, 0, Who(8, "java"), (), 1),
]


def written(picture: Picture) -> bytes:
    out = io.BytesIO()
    export.write(picture, out)
    return gzip.decompress(out.getvalue())


def read(data: bytes) -> Samples:
    return pprof.parse([data[at : at + 100] for at in range(0, len(data), 100)], "x.pb")


def counted(found: Samples) -> Counter[tuple[Who, int, tuple[Function, ...]]]:
    rows = zip(found.who.tolist(), found.cpu.tolist(), found.stack.tolist(), found.weight.tolist(), strict=True)
    counts: Counter[tuple[Who, int, tuple[Function, ...]]] = Counter()
    for who, cpu, stack, weight in rows:
        counts[found.whos[who], cpu, tuple(found.frames[stack])] += weight
    return counts


@pytest.mark.parametrize("unit", ["samples", "nanoseconds"])
def test_what_is_written_is_read_back(unit: str) -> None:
    whole = capture(ROWS, unit=unit)
    data = written(Picture(capture=whole))
    found = read(data)
    assert pprof.looks_like(data[:64]) and not found.notes
    assert found.unit == unit and counted(found) == counted(whole)


def foreign(*samples: bytes, kinds: tuple[tuple[int, int], ...] = ((1, 2), (3, 4)), default: int = 0) -> bytes:
    """A profile as others write it, by the format's document: numeric labels, inlined functions, no mapping."""
    texts = ["", "samples", "count", "cpu", "milliseconds", "outer", "inlined", "thread", "T 1", "cpu", "pid", "x"]
    return (
        b"".join(message(1, number(1, kind) + number(2, unit)) for kind, unit in kinds)
        + b"".join(message(2, sample) for sample in samples)
        + message(4, number(1, 9) + message(4, number(1, 2)) + message(4, number(1, 1)))
        + message(5, number(1, 1) + number(2, 5))
        + message(5, number(1, 2) + number(2, 6))
        + number(9, 1_794_000_000_000_000_000)
        + number(14, default)
        + b"".join(message(6, text.encode()) for text in texts)
    )


def test_profiles_of_others() -> None:
    labels = (
        message(3, number(1, 7) + number(2, 8)) + message(3, number(1, 9)) + message(3, number(1, 10) + number(3, 77))
    )
    found = read(foreign(packed(1, [9]) + packed(2, [4, 30]) + labels))
    assert [it.name for it in found.frames[0]] == ["outer", "inlined"]
    assert (found.unit, found.weight.tolist(), found.clock) == ("nanoseconds", [30_000_000], "unix")
    assert (found.cpu.tolist(), found.whos[0]) == ([0], Who(77, "T 1"))
    assert read(foreign(packed(1, [9]) + packed(2, [4, 30]), default=1)).weight.tolist() == [4]


def test_values_that_are_no_time_and_negative_ones_are_told() -> None:
    found = read(foreign(packed(2, [5]), packed(2, [-5]), packed(2, [0]), kinds=((11, 2),)))
    assert found.weight.tolist() == [5]
    assert found.notes == (
        "the values are x in count, counted as samples",
        "1 samples with a negative value are left out: a difference of two profiles",
    )


def test_of_several_values_the_last_that_is_not_all_zero_is_shown() -> None:
    first = foreign(packed(1, [9]) + packed(2, [4, 0]))
    found = read(first)
    assert (found.weight.tolist(), found.origin.measure, found.origin.others) == ([4], "samples in count", ("cpu",))
    both = foreign(packed(1, [9]) + packed(2, [4, 0]), packed(1, [9]) + packed(2, [0, 7]))
    assert read(both).origin.measure == "cpu in milliseconds" and read(both).weight.tolist() == [7_000_000]
    assert pprof.parse([both], value="samples").weight.tolist() == [4]
    none = foreign(packed(1, [9]) + packed(2, [0, 0]))
    assert not len(read(none)) and "it has no samples" in read(none).notes


def test_a_profile_without_sample_type_and_with_an_empty_one() -> None:
    body = foreign(packed(1, [9]) + packed(2, [4]), kinds=())
    assert pprof.looks_like(body) and read(body).weight.tolist() == [4]
    empty = message(1, b"") + body
    assert pprof.looks_like(empty) and read(empty).weight.tolist() == [4]
    assert read(empty).origin.measure == "[no name] in no unit"


def test_text_is_no_profile() -> None:
    for text in (b"pppppppp", b"2!aaaaaaaa", b"java;a;b 12\n", b"hhhh", b"x" * 300, b"*\n((((((((((", b"\n\n\n\n"):
        assert not pprof.looks_like(text), text


def test_unpacked_numbers_and_unknown_places_are_read() -> None:
    found = read(foreign(number(1, 9) + number(1, 1234) + number(2, 1) + number(2, 2)))
    assert [it.name for it in found.frames[0]] == ["[unknown]", "outer", "inlined"]


def test_damage_names_the_byte_and_what_was_before_it_is_shown() -> None:
    with pytest.raises(Unparsable, match="not the start of a field"):
        read(b"\x0f\x00")
    with pytest.raises(Unparsable, match=r"line 0 .*field 1 should have 5 bytes, 1 are left"):
        read(b"\x0a\x05\x08")
    with pytest.raises(Unparsable, match="does not describe its values"):
        read(b"")
    data = written(Picture(capture=capture(ROWS)))
    cut = read(data[:-2])
    assert len(cut) == 4 and cut.notes[0].startswith("damaged at byte ")
    assert not pprof.looks_like(b"\x0a\x05hello") and not pprof.looks_like(b"hello")


def test_labels_are_texts() -> None:
    """A core 0 as a number could not be chosen in Go's tool, and Parca would leave it out."""
    data = written(Picture(capture=capture(ROWS)))
    for text in (b"cpu", b"comm", b"pid", b"cgroup", b"kubelet", b"/kubepods/a"):
        assert message(6, text) in data
    assert b"\x18" not in [label[-2:-1] for label in re.findall(rb"\x1a\x04....", data, re.DOTALL)]


def go_top(path: Path, *options: str) -> dict[str, tuple[str, str]]:
    """Flat and cumulative value of each function, as `go tool pprof -top` prints them."""
    if not shutil.which("go"):
        pytest.skip("this machine cannot: go is not installed (Debian: golang-go)")
    argv = ["go", "tool", "pprof", "-top", "-nodecount=1000", "-nodefraction=0", "-symbolize=none", *options, str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    rows = [line.split(None, 5) for line in done.stdout.splitlines()]
    return {row[5]: (row[0], row[3]) for row in rows if len(row) == 6 and row[1].endswith("%")}


def test_go_reads_the_same_numbers(tmp_path: Path) -> None:
    path = tmp_path / "x.pb.gz"
    with path.open("wb") as out:
        export.write(Picture(capture=capture(ROWS)), out)
    assert go_top(path) == {"main": ("2", "10"), "vfs_read": ("3", "8"), "nf_hook": ("5", "5")}
    assert go_top(path, "-tagfocus=cpu=^1$") == {"main": ("2", "5"), "vfs_read": ("3", "3")}
    assert go_top(path, "-tagfocus=cgroup=/kubepods/a") == {
        "main": ("0", "8"),
        "vfs_read": ("3", "8"),
        "nf_hook": ("5", "5"),
    }


def test_go_shows_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "x.pb.gz"
    with path.open("wb") as out:
        export.write(Picture(capture=capture(ROWS), chosen=Chosen(end=15), baseline=Chosen(start=15, end=35)), out)
    assert go_top(path) == {"main": ("-2", "0"), "vfs_read": ("-3", "2"), "nf_hook": ("5", "5")}
