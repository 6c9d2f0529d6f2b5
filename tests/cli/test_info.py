"""The verb `info`: what any source is, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.test_sources import SCRIPT
from tests.conftest import Run
from tests.profile.perf_data_file import one_of_everything

pytestmark = pytest.mark.e2e


def test_of_any_file(tmp_path: Path, zombiescope: Run) -> None:
    for name, content, said in (
        (
            "perf.data",
            one_of_everything().file(),
            "perf.data: perf.data by perf: cpu-clock, 6 samples on 2 cores, over 0.0 s",
        ),
        ("script", SCRIPT, "script: text of perf script: cpu-clock, 1 sample on 1 core, all at one time"),
        ("folded", b"a;b 42\n", "folded: folded stacks: 1 sample that counts 42, no times"),
        ("two", b"a;b 4 2\n", "two: folded stacks of two profiles, a difference: 2 samples that count 6, no times"),
    ):
        (tmp_path / name).write_bytes(content)
        assert zombiescope("info", str(tmp_path / name), expect=0).stdout.splitlines()[0] == said


def test_for_programs_and_what_is_missing(tmp_path: Path, zombiescope: Run) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(one_of_everything().file())
    shown = json.loads(zombiescope("info", str(path), "--format", "json", expect=0).stdout)
    assert (shown["format"], shown["shown"], shown["samples"], shown["cores"]) == ("perf.data", "cpu-clock", 6, [0, 1])
    assert any(it.startswith("names of the kernel: ") for it in shown["missing"])
    assert any("--kallsyms" in it for it in shown["notes"])


def test_mistakes_are_one_line(tmp_path: Path, zombiescope: Run) -> None:
    path = tmp_path / "script"
    path.write_bytes(SCRIPT)
    for options, why in ((("--event", "x"), "has no event 'x'"), (("--value", "x"), "use --event x")):
        told = zombiescope("info", str(path), *options, expect=2).stderr
        assert why in told and told.count("\n") == 1
    missing = zombiescope("info", str(tmp_path / "none"), expect=2).stderr
    assert "no such file" in missing and missing.count("\n") == 1
