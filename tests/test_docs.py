"""Docs that cannot fall behind: generated pages are fresh, everything is documented, the recipes really work."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import PROJECT

from zombiescope.members.rooms import names

DOCS = PROJECT / "docs"
PAGES = sorted(page.relative_to(PROJECT).as_posix() for page in [*PROJECT.glob("*.md"), *DOCS.rglob("*.md")])


def test_generated_pages_are_fresh() -> None:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec and spec.loader
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    stale = [page.name for page, text in generate.pages().items() if not page.exists() or page.read_text() != text]
    if sys.version_info >= (3, 13):
        stale = [name for name in stale if name != "commands.md"]  # argparse words its help differently there
    assert not stale, "run `make docs`"


@pytest.mark.parametrize("room", ["signs", "remedies"])
def test_every_page_has_its_member(room: str) -> None:
    assert {page.stem for page in (DOCS / room).glob("*.md")} == set(names(room))


@pytest.mark.parametrize("verb", names("cli"))
def test_every_verb_is_documented(verb: str) -> None:
    assert f"## zombiescope {verb}\n" in (DOCS / "commands.md").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (PROJECT / page).read_text()):
        assert target.startswith("https://") or (PROJECT / page).parent.joinpath(target).exists(), target


def test_the_readme_is_one_screen_and_its_commands_exist() -> None:
    text = (PROJECT / "README.md").read_text()
    assert len(text.splitlines()) <= 45
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^    make ([a-z-]+)", text, re.MULTILINE)) <= targets
    assert set(re.findall(r"bin/zombiescope ([a-z]+)", text)) <= set(names("cli"))


def recipes() -> dict[str, str]:
    """The whole files of docs/adding.md, by path."""
    return dict(
        re.findall(
            r"^`(src/\S+\.py)`\n\n```python\n(.*?)```$", (DOCS / "adding.md").read_text(), re.MULTILINE | re.DOTALL
        )
    )


def test_a_stranger_can_add_one_of_everything_by_following_the_recipes(tmp_path: Path) -> None:
    files = recipes()
    rooms = ["probes", "signs", "laws", "questions", "remedies", "gate", "outputs", "lab", "cli"]
    assert [Path(path).parent.name for path in files] == rooms
    for part in ("src", "docs", "tests"):
        shutil.copytree(PROJECT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*argv: str) -> str:
        done = subprocess.run(
            [sys.executable, *argv], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    mapped = run("-m", "zombiescope", "explain", "--map", "--format", "json")
    assert "context_switch_storm_to_saturated_core" in mapped and '"context_switch_storm"' in mapped
    assert (
        "each switch is kernel work"
        in run("-m", "zombiescope", "explain", "context_switch_storm_to_saturated_core").lower()
    )
    assert "file_nr\t5\tfile_handles" in run("-m", "zombiescope", "sources")
    run("docs/generate.py")
    assert "200,000" in (tmp_path / "docs/signs/context_switch_storm.md").read_text()
    assert (tmp_path / "docs/remedies/drop_page_cache.md").exists()
    law = "[context_switch_storm](signs/context_switch_storm.md) → [saturated_core](signs/saturated_core.md)"
    assert law in (tmp_path / "docs/causal-map.md").read_text()
    assert ">context_switch_storm</text>" in (tmp_path / "docs/causal-map.svg").read_text()
    tested = run(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/test_rooms.py",
        "-k",
        "context_switch or file_nr or forks_explain or drop_page or frequent_cron or tsv or many_switches or sources",
    )
    assert re.search(r"\b\d\d+ passed", tested) and "failed" not in tested
