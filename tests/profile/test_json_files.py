"""Profiles that are JSON: what Node, py-spy and speedscope's users write, against what its producer counted."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.profile.captures import capture

from zombiescope.cli._sources import opened
from zombiescope.core import UserError
from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Function, Samples, Who
from zombiescope.profile import json_files
from zombiescope.profile.chosen import Chosen
from zombiescope.profile.exports import json as json_export
from zombiescope.profile.picture import Picture

WORK = """
function inner(n) { let s = 0; for (let i = 0; i < n; i++) { s += Math.sqrt(i) % 7 } return s }
function outer() { let t = 0; for (let k = 0; k < 40; k++) { t += inner(200000) } return t }
const end = Date.now() + 300; while (Date.now() < end) outer()
"""


def parsed(told: object) -> Samples:
    data = json.dumps(told).encode()
    assert json_files.looks_like(data)
    return json_files.parse([data[:9], data[9:]], "it")


def leaves(found: Samples) -> Counter[str]:
    told: Counter[str] = Counter()
    for stack, weight in zip(found.stack.tolist(), found.weight.tolist(), strict=True):
        told[(found.frames.names(stack) or ("",))[-1]] += weight
    return told


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("node"):
        pytest.skip("this machine cannot: node is not installed (Debian: nodejs)")
    made = tmp_path_factory.mktemp("node")
    (made / "work.js").write_text(WORK)
    for options in (["--cpu-prof", "--cpu-prof-name=a.cpuprofile"], ["--prof", "--no-logfile-per-isolate"]):
        subprocess.run(["node", *options, "work.js"], cwd=made, check=True, capture_output=True, timeout=120)
    argv = ["node", "--prof-process"]
    for name, options in (("v8.json", ["--preprocess"]), ("v8.txt", [])):
        told = subprocess.run([*argv, *options, "v8.log"], cwd=made, check=True, capture_output=True, timeout=120)
        (made / name).write_bytes(told.stdout)
    return made


def test_cpuprofile_of_node_has_its_hit_counts_and_times(folder: Path) -> None:
    path = folder / "a.cpuprofile"
    found, told = opened(str(path)).capture, json.loads(path.read_bytes())
    hits: Counter[str] = Counter()
    for node in told["nodes"]:
        hits[node["callFrame"]["functionName"] or "(anonymous)"] += node["hitCount"]
    not_programs = ("(idle)", "(root)", "(program)")  # V8 counts no hit of the first sample, which is in (program)
    expected = {name: count for name, count in hits.items() if count and name not in not_programs}
    seen = {name: count for name, count in leaves(found).items() if name and name not in not_programs}
    assert seen == expected and seen["inner"] > 10
    assert len(told["samples"]) - int(found.weight.sum()) == hits["(idle)"]
    hottest = found.frames.names(int(found.stack[found.stack >= 0][len(found) // 2]))
    assert hottest[-2:] == ("outer", "inner")
    assert told["startTime"] * 1000 <= found.start < found.end <= told["endTime"] * 1000 + 1


def test_node_s_own_log_has_its_ticks(folder: Path) -> None:
    found = opened(str(folder / "v8.json")).capture
    text = (folder / "v8.txt").read_text()
    ticks = re.search(r"\((\d+) ticks, (\d+) unaccounted", text)
    inner = re.findall(r"^ +(\d+) .* JS: \S?inner ", text, re.MULTILINE)
    assert ticks and int(found.weight.sum()) == int(ticks[1])
    assert leaves(found)["inner"] >= max(map(int, inner)) > 10


def test_py_spy(tmp_path: Path) -> None:
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if not spy:
        pytest.skip("this machine cannot: py-spy is not installed (pip install py-spy)")
    work = "def inner():\n    return sum(i * i for i in range(9999))\nfor _ in range(900):\n    inner()\n"
    (tmp_path / "work.py").write_text(work)
    argv = [spy, "record", "-d", "1", "-f"]
    for form in ("speedscope", "raw"):
        out = tmp_path / form
        done = subprocess.run(
            [*argv, form, "-o", str(out), "--", sys.executable, str(tmp_path / "work.py")], capture_output=True
        )
        if done.returncode:
            pytest.skip("this machine cannot: py-spy may not look into processes")
        found = opened(str(out)).capture
        assert any("inner" in name for name in leaves(found))
        if form == "raw":
            assert int(found.weight.sum()) == sum(int(it.rsplit(" ", 1)[1]) for it in out.read_text().splitlines())
        else:
            told = json.loads(out.read_bytes())
            seconds = sum(weight for it in told["profiles"] for weight in it["weights"])
            assert int(found.weight.sum()) == pytest.approx(seconds * 1e9, abs=len(found))


def speedscope(*profiles: dict[str, Any]) -> dict[str, Any]:
    return {"shared": {"frames": [{"name": "a"}, {"name": "b", "file": "/bin/b"}]}, "profiles": list(profiles)}


def test_speedscope_s_calls_and_returns() -> None:
    events = [("O", 0, 10), ("O", 1, 12), ("C", 1, 15), ("C", 0, 16)]
    calls = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]
    found = parsed(
        speedscope({"type": "evented", "name": "t", "unit": "milliseconds", "startValue": 10, "events": calls})
    )
    assert leaves(found) == {"a": 3_000_000, "b": 3_000_000}
    assert (found.unit, found.clock, found.at.tolist()) == ("nanoseconds", "machine", [10**7, 12 * 10**6, 15 * 10**6])
    assert [it.comm for it in found.whos] == ["t"]


def test_speedscope_s_threads_are_one_and_other_units_are_left_out() -> None:
    one = {"type": "sampled", "name": "one", "unit": "none", "samples": [[0], [0, 1]], "weights": [2, 0.5]}
    two = one | {"name": "two", "weights": [1, 0.5]}
    other = one | {"unit": "bytes"}
    found = parsed(speedscope(one, two, other))
    assert int(found.weight.sum()) == 4 and leaves(found)["a"] == 3
    assert any("1 profiles of another unit" in it for it in found.notes) and found.clock == "none"


def test_cpuprofile_without_samples_has_hit_counts() -> None:
    frames = [{"functionName": name, "url": "f.js"} for name in ("(root)", "a", "", "(idle)")]
    nodes = [{"id": it + 1, "callFrame": frame, "hitCount": 2 * it} for it, frame in enumerate(frames)]
    nodes[0]["children"] = [2, 4]
    nodes[1]["children"] = [3]
    found = parsed({"nodes": nodes, "startTime": 0, "endTime": 9})
    assert leaves(found) == {"a": 2, "(anonymous)": 4} and found.clock == "none"
    assert found.frames.names(int(found.stack[1])) == ("a", "(anonymous)")
    assert any("6 samples while nothing ran" in it for it in found.notes)


def test_our_difference_is_read_as_one() -> None:
    rows = [(at, 0, Who(1, "x"), (Function("f", at > 5, "m"),), 1) for at in range(10)]
    picture = Picture(capture=capture(rows), chosen=Chosen(start=4), baseline=Chosen(end=4))
    out = io.BytesIO()
    json_export.write(picture, out)
    found = json_files.parse([out.getvalue()])
    assert found.parted == 1
    before, after = found.only(found.at < 1), found.only(found.at >= 1)
    assert (int(before.weight.sum()), int(after.weight.sum())) == (4, 6)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"a": 1}, "no profile that we read"),
        ([{"ph": "B"}], "a trace of events"),
        ({"traceEvents": []}, "a trace of events"),
        (speedscope({"type": "sampled", "samples": [[7]], "weights": [1]}), "not as speedscope is: IndexError"),
        (speedscope({"type": "sampled", "samples": [[-1]], "weights": [1]}), "not as speedscope is: IndexError"),
        (speedscope({"type": "sampled", "samples": [[0]], "weights": [1e300]}), "is no weight"),
        (speedscope({"type": "evented", "events": [{"type": "C", "frame": 0, "at": 1}]}), "not the innermost"),
        ({"nodes": [{"id": 1, "callFrame": 3}], "samples": [1]}, "not as cpuprofile is"),
        ({"zombiescope": "1", "nodes": [{"parent": 5, "name": "a"}]}, "no frame 5"),
    ],
)
def test_what_is_wrong_is_one_line(told: object, why: str) -> None:
    with pytest.raises(Unparsable, match=why):
        parsed(told)


@pytest.mark.parametrize("data", [b'{"a":' * 100_000, b'{"a": NaN}', b'{"a": 1' + b"0" * 9000 + b"}", b'{"a": "'])
def test_damaged_json(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(data)
    with pytest.raises(UserError, match="damaged JSON"):
        opened(str(path))


def test_a_circle_of_nodes_and_a_deep_tree_end() -> None:
    circle = [{"id": it, "callFrame": {"functionName": f"f{it}"}, "children": [1 - it], "hitCount": 1} for it in (0, 1)]
    assert len(parsed({"nodes": circle})) == 2
    deep = [{"name": "r", "kind": "root", "parent": -1, "own": 0}]
    deep += [{"name": "p", "kind": "process", "parent": 0, "own": 0}]
    deep += [
        {"name": "f", "kind": "user", "module": "", "parent": it, "own": int(it == 20_000)} for it in range(1, 20_001)
    ]
    assert len(parsed({"zombiescope": "1", "nodes": deep}).frames[0]) == 10_000
