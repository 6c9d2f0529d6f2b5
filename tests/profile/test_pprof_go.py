"""Profiles that Go itself writes, against Go's own tool: every kind, every value, fields in any order."""

from __future__ import annotations

import gzip
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.conftest import Run

from zombiescope.cli._files import Asked
from zombiescope.cli._sources import opened
from zombiescope.core import UserError
from zombiescope.profile import pprof
from zombiescope.profile.wire import fields, message, number

KINDS = ("cpu", "heap", "allocs", "goroutine", "mutex", "block", "threadcreate")
PROGRAM = Path(__file__).parent / "go_program" / "main.go"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("go"):
        pytest.skip("this machine cannot: go is not installed (Debian: golang-go)")
    made = tmp_path_factory.mktemp("go")
    subprocess.run(["go", "run", str(PROGRAM), str(made)], check=True, capture_output=True, timeout=300)
    return made


def raw(path: Path) -> tuple[dict[str, int], str]:
    """The total of each value as Go's tool reads it, and the value that it shows."""
    argv = ["go", "tool", "pprof", "-symbolize=none"]
    told = subprocess.run([*argv, "-raw", str(path)], capture_output=True, text=True, check=True, timeout=120).stdout
    _, _, samples = told.partition("Samples:\n")
    header, *lines = samples.partition("Locations\n")[0].splitlines()
    names = [it.split("/")[0] for it in re.sub(r"\[dflt\]", "", header).split()]
    rows = [re.match(r"([ \d-]+): ", line) for line in lines]
    totals = [[int(it) for it in row[1].split()] for row in rows if row]
    top = subprocess.run([*argv, "-top", str(path)], capture_output=True, text=True, check=True, timeout=120).stdout
    shown = re.search(r"^Type: (\S+)", top, re.MULTILINE)
    assert shown
    return {name: sum(it[place] for it in totals) for place, name in enumerate(names)}, shown[1]


@pytest.mark.parametrize("kind", KINDS[:-1])  # Go's tool leaves samples without a stack out: all of threadcreate's
def test_every_value_of_every_profile_is_what_go_says(folder: Path, kind: str) -> None:
    path = folder / f"{kind}.pb.gz"
    totals, shown = raw(path)
    for name, total in totals.items():
        found = opened(str(path), asked=Asked(value=name)).capture
        assert int(found.weight.sum()) == total, name
        assert found.origin.measure.startswith(f"{name} in ")
        assert set(found.origin.others) == set(totals) - {name}
    assert opened(str(path)).capture.origin.measure.startswith(f"{shown} in ")
    assert any(totals.values()), "nothing was measured"


@pytest.mark.parametrize("kind", KINDS)
def test_fields_come_in_any_order(folder: Path, kind: str) -> None:
    data = gzip.decompress((folder / f"{kind}.pb.gz").read_bytes())
    parts = [
        number(field, told) if isinstance(told, int) else message(field, data[told]) for field, told in fields(data, "")
    ]
    # Texts and kinds of values are numbered by their order, and stay in it.
    texts = [it for it in parts if it[:1] in (b"\x32", b"\x0a")]
    others = [it for it in parts if it[:1] not in (b"\x32", b"\x0a")]
    whole = pprof.parse([data])
    for seed in range(5):
        random.Random(seed).shuffle(others)
        for mixed in (others + texts, texts + others):
            found = b"".join(mixed)
            assert pprof.looks_like(found[: 64 << 10])
            again = pprof.parse([found])
            assert int(again.weight.sum()) == int(whole.weight.sum())
            assert sorted(map(again.frames.names, again.stack)) == sorted(map(whole.frames.names, whole.stack))


def test_packed_or_not_and_by_any_name(folder: Path, tmp_path: Path) -> None:
    packed = folder / "heap.pb.gz"
    plain = tmp_path / "notes.txt"
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    assert opened(str(plain)).capture.weight.sum() == opened(str(packed)).capture.weight.sum()


def test_the_choice_is_said_and_a_wrong_one_is_refused(folder: Path, zombiescope: Run) -> None:
    path = str(folder / "heap.pb.gz")
    told = zombiescope("info", path, expect=0).stdout
    assert "pprof by Go: inuse_space in bytes" in told
    assert "--value also takes alloc_objects, alloc_space, inuse_objects" in told
    assert "alloc_space in bytes" in zombiescope("flame", path, "--value", "alloc_space", expect=0).stderr
    with pytest.raises(UserError, match="has no value 'cycles': --value takes alloc_objects"):
        opened(path, asked=Asked(value="cycles"))
    with pytest.raises(UserError, match="pprof has values, not events: use --value cycles"):
        opened(path, asked=Asked(event="cycles"))


def test_go_s_profiles_as_text_are_refused_with_the_way_out(folder: Path) -> None:
    with pytest.raises(UserError, match=r"fetch it without \?debug="):
        opened(str(folder / "goroutine.txt"))
