"""Man pages: nothing of the parsers is missing, and groff and mandoc have nothing to object to."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import CANNOT, PROJECT

from zombiescope.__main__ import command_parser
from zombiescope.cli._commands import Command, command_of
from zombiescope.cli._manual import pages
from zombiescope.members.rooms import names

ROOT = command_of(command_parser())
PAGES = pages(ROOT, "2025-03-04")


def test_every_verb_has_a_page() -> None:
    assert set(PAGES) == {"zombiescope.1", *(f"zombiescope-{verb}.1" for verb in names("cli"))}


@pytest.mark.parametrize("verb", ROOT.below, ids=lambda it: it.words[-1])
def test_a_page_has_every_option_and_argument(tmp_path: Path, verb: Command) -> None:
    text = shown(PAGES[f"{'-'.join(verb.words)}.1"], tmp_path)
    for one in verb.all():
        assert one.name in text
        for argument in (*one.options, *one.places):
            assert all(flag in text for flag in argument.flags) and (argument.flags or argument.metavar in text)
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"):
        assert re.search(rf"^{section}$", text, re.MULTILINE)
    for command_line in re.findall(r"^  (\S.*?)(?:  |$)", verb.epilog, re.MULTILINE):
        assert " ".join(command_line.split()) in " ".join(text.split())


def test_the_first_page_names_every_variable_that_is_read(tmp_path: Path) -> None:
    sources = [path.read_text() for path in PROJECT.glob("src/**/*.py") if path.name != "_manual.py"]
    read = {name for text in sources for name in re.findall(r"\"(ZOMBIESCOPE_[A-Z_]+)\"", text)}
    text = shown(PAGES["zombiescope.1"], tmp_path)
    assert {"ZOMBIESCOPE_PATH", "ZOMBIESCOPE_LEDGER"} <= read
    assert [name for name in (*sorted(read), "NO_COLOR") if name not in text] == []
    assert {verb for verb in names("cli") if f"zombiescope-{verb}(1)" in text} == set(names("cli"))


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("checker", (("mandoc", "-T", "lint"), ("man", "--warnings", "-E", "UTF-8", "-l")))
def test_a_page_is_as_man_pages_must_be(tmp_path: Path, name: str, checker: tuple[str, ...]) -> None:
    needed(checker[0])
    (tmp_path / name).write_text(PAGES[name])
    done = subprocess.run([*checker, str(tmp_path / name)], capture_output=True, text=True, check=False)
    objections = done.stdout if checker[0] == "mandoc" else done.stderr
    assert (done.returncode, objections) == (0, "")


def test_words_that_roff_would_take_for_its_own_are_shown(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser("zombiescope", description=".so /etc/passwd\n\n'br is text, \\n too → and 100 %")
    parser.add_argument("--odd", metavar=".FILE", help="a\\fBb `--x ~/'y'`")
    parser.add_subparsers()
    text = " ".join(shown(pages(command_of(parser), "2025-03-04")["zombiescope.1"], tmp_path).split())
    for expected in (".so /etc/passwd", "br is text, \\n too → and 100 %", "--odd .FILE", "A\\fBb --x ~/'y'"):
        assert expected in text


def test_pages_and_scripts_are_made_without_any_dependency(tmp_path: Path) -> None:
    """As where a package is built: only Python is there."""
    env = {"PYTHONPATH": str(PROJECT / "src"), "SOURCE_DATE_EPOCH": "1741046400", "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-S", "-m", "zombiescope.cli._shipped", str(tmp_path)]
    subprocess.run(argv, env=env, check=True)
    for name, text in PAGES.items():
        assert (tmp_path / "share/man/man1" / name).read_text() == text
    for path in ("bash-completion/completions", "zsh/site-functions", "fish/vendor_completions.d"):
        (script,) = (tmp_path / "share" / path).iterdir()
        assert "zombiescope" in script.name and "diagnose" in script.read_text()


def shown(page: str, folder: Path) -> str:
    """As a reader sees it."""
    needed("mandoc")
    (folder / "page.1").write_text(page)
    argv = ["mandoc", "-T", "utf8", "-O", "width=200", str(folder / "page.1")]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return re.sub(".\b", "", done.stdout)  # bold and underlined, as on a typewriter


def needed(program: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"{CANNOT}{program} is not installed")
