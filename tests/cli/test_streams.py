"""Where words go: `-o FILE` in place of stdout, `--quiet` for nothing but errors on stderr; on every verb."""

from __future__ import annotations

import argparse
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from zombiescope.__main__ import command_parser, main

# They write into a folder, show a screen, or go on until they are stopped.
NO_REPORT = {"record", "agent", "top", "lab run", "lab clean", "lab fleet", "fleet view"}


def leaves(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = [it for it in parser._actions if isinstance(it, argparse._SubParsersAction)]
    if not below:
        yield " ".join(words), parser
    for each in below:
        for name, part in each.choices.items():
            yield from leaves(part, (*words, name))


def test_every_verb_can_be_quiet_and_every_report_can_be_a_file() -> None:
    all_of_them = dict(leaves(command_parser()))
    assert {"diagnose", "lab score", "fleet status"} <= all_of_them.keys()
    assert [name for name, it in all_of_them.items() if "--quiet" not in it._option_string_actions] == []
    lacking = {name for name, it in all_of_them.items() if {"-o", "--output"} - it._option_string_actions.keys()}
    assert lacking == NO_REPORT


@pytest.mark.parametrize(
    "argv",
    [
        ("diagnose", "--sample"),
        ("diagnose", "--sample", "--format", "json"),
        ("fix", "--sample"),
        ("explain",),
        ("explain", "--map", "--format", "svg"),
        ("completion", "bash"),
        ("lab", "list", "--format", "json"),
    ],
)
def test_the_file_holds_what_stdout_would(
    argv: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(argv)
    printed = capsys.readouterr().out
    assert main((*argv, "-o", str(tmp_path / "it"))) == code
    assert capsys.readouterr().out == ""
    assert (tmp_path / "it").read_text() == printed and len(printed) > 100
    assert [it.name for it in tmp_path.iterdir()] == ["it"]


def test_a_file_that_cannot_be_whole_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "it"
    out.write_text("before")
    assert main(("explain", "nothing_like_it", "-o", str(out))) == 2
    assert out.read_text() == "before" and "no such name" in capsys.readouterr().err
    assert main(("explain", "-o", str(tmp_path / "no/such/folder"))) == 2
    assert "cannot be written: no such file or directory" in capsys.readouterr().err
    assert [it.name for it in tmp_path.iterdir()] == ["it"]


def test_a_device_is_written_to_and_stays_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("explain", "-o", "/dev/null")) == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert main(("explain", "-o", "/dev/full")) == 2
    assert capsys.readouterr().err == "zombiescope: /dev/full: cannot be written: no space left on device\n"


def test_quiet_keeps_errors_and_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("diagnose", "--sample", "--format", "json")) == 1
    loud = capsys.readouterr()
    assert loud.err
    assert main(("diagnose", "--sample", "--format", "json", "--quiet")) == 1
    quiet = capsys.readouterr()
    assert json.loads(quiet.out) == json.loads(loud.out) and quiet.err == ""
    assert main(("view", "--sample", "-q", "-o", str(tmp_path / "heat.svg"))) == 0
    assert capsys.readouterr().err == ""
    assert main(("diagnose", "/nowhere", "-q")) == 2
    assert capsys.readouterr().err == "zombiescope: /nowhere: no such recording\n"
