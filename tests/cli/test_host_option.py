"""--host: what it refuses, each with one line and exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from zombiescope.__main__ import main

Refused = Callable[[str], str]
VERBS = ("record ./never", "diagnose", "census", "audit")


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refused:
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> str:
        assert main(line.split()) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1, err
        assert not (tmp_path / "never").exists()
        return err

    return run


@pytest.mark.parametrize("verb", VERBS)
def test_a_path_that_is_no_root(refused: Refused, tmp_path: Path, verb: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "image/etc").mkdir(parents=True)
    for name, says in {
        "nowhere": "no such folder",
        "file": "not a folder",
        "empty": "no /etc in it",
        "image": "no /proc in it",
    }.items():
        assert f"{tmp_path}/{name}: {says}; --host takes" in refused(f"{verb} --host {tmp_path}/{name}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("census --host / --root .", "exclude each other"),
        ("audit --host / --root .", "exclude each other"),
        ("diagnose ./rec --host /", "--host is for a live node"),
        ("fix --host /", "run it on the node itself"),
        ("fix saturated_core --apply --host /host", "run it on the node itself"),
    ],
)
def test_what_does_not_go_together(refused: Refused, line: str, says: str) -> None:
    assert says in refused(line)


def test_our_own_root_is_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["census", "--host", "/", "--controller", "memory", "--format", "tsv"]) in (0, 3)
    assert capsys.readouterr().out.startswith("controller\t")
