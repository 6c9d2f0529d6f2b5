"""The page's own source keeps the rules of the house: small files that say what they are, and nothing from outside."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.conftest import PROJECT

PAGE = PROJECT / "page"
SOURCES = sorted((PAGE / "src").glob("*.ts*"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_file_is_small_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("// ") and len(text.splitlines()) < 300
    assert not re.search(r"https?://|innerHTML|\beval\(|dangerouslySetInnerHTML|\bas any\b|: any\b", text)


def test_what_it_is_built_of_is_pinned() -> None:
    told = json.loads((PAGE / "package.json").read_text())
    locked = json.loads((PAGE / "package-lock.json").read_text())["packages"]
    wanted = {**told["dependencies"], **told["devDependencies"]}
    assert wanted and all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all(it.get("integrity") for name, it in locked.items() if name and not it.get("link"))
