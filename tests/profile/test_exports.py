"""Exports: read back they hold the same counts, whatever the names; and what others make of them."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import xml.etree.ElementTree as ElementTree
import zlib
from collections import Counter
from collections.abc import Callable, Iterable

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.npm import text_of
from tests.profile.captures import Row, capture

from zombiescope.core.errors import UserError
from zombiescope.core.samples import Function, Samples, Who
from zombiescope.members.rooms import load, names
from zombiescope.profile import folded, json_files, perf_script, pprof
from zombiescope.profile.chosen import Chosen
from zombiescope.profile.heatmap_images import as_png, as_svg, grid
from zombiescope.profile.picture import Picture, shown

HOSTILE = [
    "",
    " ",
    ";",
    "a;b",
    "a b",
    " 7",
    "x 1 [000] 1.000000: y:",
    "new\nline",
    "tab\there",
    "\x1b[31mred",
    "\udcff\udcfe",
]
HOSTILE += [
    "</title><script>alert(1)</script>",
    "&amp;",
    "(",
    ")",
    "f (x)",
    "[unknown]",
    "operator()(int)",
    "#",
    "\u202eback",
]
HOSTILE += ["_[k]", "f+0x12", "字幕" * 40, "x" * 9000, "\x00", "\r", "42", "a 42", "\ufffe", "all"]
anything = st.sampled_from(HOSTILE) | st.text(max_size=12)
functions = st.builds(Function, anything, st.booleans(), anything)
whos = st.builds(Who, st.integers(-1, 3), anything, st.sampled_from(["", "/x", "/x\n/y"]))
rows = st.tuples(
    st.integers(0, 10**12), st.integers(-1, 2), whos, st.lists(functions, max_size=4).map(tuple), st.integers(1, 9)
)
captures = st.lists(rows, max_size=12).map(capture)
READERS: dict[str, Callable[[Iterable[bytes], str], Samples]] = {
    "folded": folded.parse,
    "pprof": pprof.parse,
    "script": perf_script.parse,
    "speedscope": json_files.parse,
    "json": json_files.parse,
}
WITH_CORES = ("pprof", "script")

WALK = (Function("main", False, "/bin/kubelet"), Function("read", True), Function("mem_cgroup_nr_lru_pages", True))
LOOP = (Function("run", False, "libjvm.so"),)
ROWS: list[Row] = [(at * 10**7, at % 2, Who(7, "kubelet"), WALK, 1) for at in range(30)]
ROWS += [(at * 10**7, 1, Who(8, "java"), LOOP, 1) for at in range(100)]
LATE = Picture(capture=capture(ROWS), chosen=Chosen(end=3 * 10**8), baseline=Chosen(start=3 * 10**8))


def written(name: str, picture: Picture) -> bytes:
    out = io.BytesIO()
    load("profile.exports", name).write(picture, out)
    return out.getvalue()


def again(name: str, data: bytes) -> Samples:
    plain = gzip.decompress(data) if name == "pprof" else data
    return READERS[name]([plain[at : at + 777] for at in range(0, len(plain), 777)], "again")


def stacks(found: Samples) -> Counter[tuple[str, ...]]:
    """What each stack weighs, by its names as folded text has them: the least that any format keeps."""
    told: Counter[tuple[str, ...]] = Counter()
    for who, stack, weight in zip(found.who.tolist(), found.stack.tolist(), found.weight.tolist(), strict=True):
        frames = [(it.name, it.kernel) for it in found.frames[stack]]
        path = [shown(name).replace(";", ":") + "_[k]" * kernel for name, kernel in frames]
        told[(shown(found.whos[who].comm).replace(";", ":"), *path)] += weight
    return told


@pytest.mark.parametrize("name", READERS)
@settings(deadline=None, max_examples=70, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(captures)
def test_read_back_it_has_the_same_counts_whatever_the_names(name: str, whole: Samples) -> None:
    found = again(name, written(name, Picture(capture=whole)))
    assert not [note for note in found.notes if "no samples" not in note], "every line is understood"
    told, expected = stacks(found), stacks(whole)
    if name == "script":
        told, expected = (_as_script_keeps_it(it) for it in (told, expected))
        assert found.at.tolist() == whole.at.tolist() and found.tid.tolist() == whole.tid.tolist()
    assert told == expected
    if name in WITH_CORES:
        assert {*found.cpu.tolist()} == {*whole.cpu.tolist()}
        assert {found.whos[it].pid for it in found.who} == {whole.whos[it].pid for it in whole.who}


def _as_script_keeps_it(stacks: Counter[tuple[str, ...]]) -> Counter[tuple[str, ...]]:
    """Names of threads are cut, and have no blank before a number; a function without a name is called by its file."""
    told: Counter[tuple[str, ...]] = Counter()
    for path, weight in stacks.items():
        told[tuple(re.sub(r"^\[.*?(_\[k\])?$", r"[unknown]\1", name) for name in path[1:])] += weight
    return told


@settings(deadline=None, max_examples=30)
@given(captures, st.booleans())
def test_every_export_takes_every_name(whole: Samples, compared: bool) -> None:
    picture = Picture(capture=whole, baseline=Chosen(end=10**11) if compared else None)
    for name in ("json", "speedscope", "svg", "text", "folded", "script"):
        data = written(name, picture)
        assert b"\x1b" not in data and b"\0" not in data
        data.decode()
        if name in ("json", "speedscope"):
            json.loads(data)
        if name == "svg":
            assert not [it for it in ElementTree.fromstring(data).iter() if "script" in it.tag]


def test_cores_in_nanoseconds_keep_their_spells_in_perf_script_text() -> None:
    spell = capture(
        [(1, 0, Who(1, "a"), WALK, 20_408_163), (5 * 10**9, 0, Who(1, "a"), WALK, 5 * 10**9)], unit="nanoseconds"
    )
    found = again("script", written("script", Picture(capture=spell)))
    assert (found.unit, found.weight.tolist()) == ("nanoseconds", [20_408_163, 5 * 10**9])


def test_perf_script_text_is_as_flamescope_and_stackcollapse_expect_it() -> None:
    text = written("script", Picture(capture=capture(ROWS[:1]))).decode()
    head, *frames = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert re.match(r"^kubelet +7/7 +\[000\] 0\.000000000: +1 samples: $", head)
    assert re.search(r" +([0-9.]+): .+?:", head), "how FlameScope finds events"
    assert re.match(r"^(\S.+?)\s+(\d+)\/*(\d+)*\s+", head), "how stackcollapse-perf.pl does"
    assert re.search(r":\s*(\d+)*\s+(\S+):\s*$", head), "and how it finds the period"
    assert all(re.match(r"^\s*(\w+)\s*(.+) \((.*)\)", line) for line in frames)
    assert [re.match(r"^[\t ]*[0-9a-fA-F]+ (.+) \((.*?)\)$", line).groups() for line in frames] == [  # type: ignore[union-attr]
        ("mem_cgroup_nr_lru_pages", "[kernel.kallsyms]"),
        ("read", "[kernel.kallsyms]"),
        ("main", "/bin/kubelet"),
    ]


def test_folded() -> None:
    assert written("folded", Picture(capture=capture(ROWS))).decode().splitlines() == [
        "java;run 100",
        "kubelet;main;read_[k];mem_cgroup_nr_lru_pages_[k] 30",
    ]


@pytest.mark.parametrize("at_once", [1, 30, 1 << 20])
def test_folded_names_are_all_that_counts_and_lines_are_gathered_some_at_a_time(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load("profile.exports", "folded"), "_AT_ONCE", at_once)
    alike = [(at, 0, Who(at, "x"), (Function("main", False, f"/bin/{at % 3}"),) * (1 + at % 2), 1) for at in range(60)]
    text = written("folded", Picture(capture=capture([*ROWS, *alike]))).decode()
    assert sorted(text.splitlines()) == [
        "java;run 100",
        "kubelet;main;read_[k];mem_cgroup_nr_lru_pages_[k] 30",
        "x;main 30",
        "x;main;main 30",
    ]
    assert written("folded", Picture(capture=capture([]))) == b""


def test_a_folded_difference_has_the_baseline_first_and_of_the_same_size() -> None:
    lines = dict(line.split(" ", 1) for line in written("folded", LATE).decode().splitlines())
    assert lines == {"java;run": "60 30", "kubelet;main;read_[k];mem_cgroup_nr_lru_pages_[k]": "0 30"}


def test_json() -> None:
    told = json.loads(written("json", LATE))
    assert (told["unit"], told["total"], told["baseline"]["total"]) == ("samples", 60, 70)
    root, java, run, kubelet, *_ = told["nodes"]
    assert (root["parent"], java["parent"], run["parent"], kubelet["parent"]) == (-1, 0, 1, 0)
    assert (run["name"], run["kind"], run["module"], run["depth"]) == ("run", "user", "libjvm.so", 2)
    assert (run["own"], run["total"], run["baseline_own"], run["delta_own"]) == (30, 30, 70, -30.0)
    assert kubelet["delta_total"] == 30.0 and kubelet["kind"] == "process"


def test_the_short_list() -> None:
    text = written("text", Picture(capture=capture(ROWS))).decode()
    assert "130 samples" in text and "23.08%  mem_cgroup_nr_lru_pages  [kernel]" in text
    assert "kubelet: mem_cgroup_nr_lru_pages ← read ← main" in text
    assert "50.00%   +50.00 points from   0.00%  mem_cgroup_nr_lru_pages" in written("text", LATE).decode()


def test_speedscope_s_schema_accepts_ours() -> None:
    file = "dist/release/file-format-schema.json"
    schema = json.loads(text_of("speedscope@1.25.0", file, "ZOMBIESCOPE_SPEEDSCOPE_SCHEMA"))
    for rows in (ROWS, []):
        jsonschema.validate(json.loads(written("speedscope", Picture(capture=capture(rows)))), schema)


def test_speedscope_has_the_machine_and_each_core() -> None:
    told = json.loads(written("speedscope", Picture(capture=capture(ROWS))))
    frames = [it["name"] for it in told["shared"]["frames"]]
    whole, *cores = told["profiles"]
    assert [it["name"] for it in cores] == ["core 0", "core 1"]
    assert sum(whole["weights"]) == whole["endValue"] == sum(it["endValue"] for it in cores) == 130
    paths = {
        tuple(frames[it] for it in sample): weight
        for sample, weight in zip(whole["samples"], whole["weights"], strict=True)
    }
    assert paths == {("java", "run"): 100, ("kubelet", "main", "read", "mem_cgroup_nr_lru_pages"): 30}


def boxes(picture: Picture) -> dict[str, tuple[float, str]]:
    """Width and colour by name, out of the picture itself."""
    found = {}
    for group in ElementTree.fromstring(written("svg", picture)).iter("{http://www.w3.org/2000/svg}g"):
        title, rect = group[0].text or "", group[1]
        found[title.split(":")[0].split(" ")[0]] = (float(rect.get("width", "0")), str(rect.get("fill")))
    return found


def test_svg_frames_are_as_wide_as_their_share() -> None:
    drawn = boxes(Picture(capture=capture(ROWS)))
    assert drawn["all"][0] == pytest.approx(1200, abs=0.5)
    assert drawn["kubelet"][0] == pytest.approx(1200 * 30 / 130, abs=0.5)
    assert drawn["java"][0] == pytest.approx(1200 * 100 / 130, abs=0.5)


def test_svg_colours_tell_more_from_less_and_kernel_from_user() -> None:
    def red_over_blue(colour: str) -> int:
        return int(colour[1:3], 16) - int(colour[5:7], 16)

    plain, compared = boxes(Picture(capture=capture(ROWS))), boxes(LATE)
    assert red_over_blue(plain["read"][1]) > 50 > -50 > red_over_blue(plain["run"][1])
    assert red_over_blue(compared["kubelet"][1]) > 50 > -50 > red_over_blue(compared["java"][1])
    assert abs(red_over_blue(compared["all"][1])) < 10


def test_what_vanished_is_drawn_too() -> None:
    gone = Picture(capture=capture(ROWS), chosen=Chosen(start=3 * 10**8), baseline=Chosen(end=3 * 10**8))
    assert boxes(gone)["kubelet"][0] == pytest.approx(1200 * 0.25, abs=0.5)


def test_a_png_is_a_picture() -> None:
    image = pytest.importorskip("PIL.Image", reason="this machine cannot: Pillow is not installed")
    with image.open(io.BytesIO(written("png", Picture(capture=capture(ROWS))))) as picture:
        assert picture.size[0] == 2440 and len(picture.getcolors(1 << 20)) > 5
    hostile = capture([(0, 0, Who(1, name), (Function(name, True, name),), 1) for name in HOSTILE])
    assert written("png", Picture(capture=hostile)).startswith(b"\x89PNG")


def test_deep_stacks_stay_pictures() -> None:
    deep = tuple(Function(f"f{depth}", False) for depth in range(3000))
    data = written("svg", Picture(capture=capture([(0, 0, Who(1, "a"), deep, 1)])))
    assert data.count(b"<g>") == 400 and b"the lowest 400 levels" in data


def test_heatmaps() -> None:
    whole = capture(ROWS)
    cells = grid(whole)
    assert (cells.heat.shape, cells.column, int(cells.heat.sum())) == ((50, 1), 10**9, 130)
    assert cells.heat[:15].sum() == 60 and cells.heat[15:].sum() == 70
    data = as_png(whole)
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(b"\x89PNG") and height == 50 * 6
    at = data.index(b"IDAT")
    (size,) = struct.unpack(">I", data[at - 4 : at])
    assert len(zlib.decompress(data[at + 4 : at + 4 + size])) == height * (1 + 3 * width)
    root = ElementTree.fromstring(as_svg(whole))
    assert [it.text for it in root.iter("{http://www.w3.org/2000/svg}title")] == ["0 s: 130 samples"]


def test_long_captures_have_longer_columns_and_none_without_times() -> None:
    long = capture([(at * 3600 * 10**9, 0, Who(1, "a"), LOOP, 1) for at in range(13)])
    assert grid(long).column == 30 * 10**9 and grid(long).heat.sum() == 13
    with pytest.raises(UserError, match="no times"):
        grid(again("folded", b"a;b 1\n"))


@pytest.mark.parametrize("name", names("profile.exports"))
def test_every_export_says_what_it_can(name: str) -> None:
    export = load("profile.exports", name)
    assert export.SUFFIX.startswith(".") and isinstance(export.BINARY, bool) and isinstance(export.COMPARES, bool)
