"""A small fleet, its page served as docs/fleet.md says, and a viewer of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import PROJECT
from tests.fleet.fleets import opened
from tests.web import fleet_store
from tests.web.test_server import viewing
from tests.web.viewer import Viewer

from zombiescope.fleet.reading import Fleet

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDE, TALL = 1500, 900


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fleet_store.made(tmp_path_factory.mktemp("fleet") / "store")


@pytest.fixture(scope="module")
def fleet(folder: Path) -> Fleet:
    return opened(folder)


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """Served as docs/fleet.md says."""
    said = re.search(r"^    zombiescope (fleet view .*)$", (PROJECT / "docs/fleet.md").read_text(), re.MULTILINE)
    assert said
    words = [str(folder) if it == "./fleet" else it for it in shlex.split(said[1]) if it != "--open"]
    assert str(folder) in words
    with viewing("--agents", "https://{node}.example:9479/page/", verb=tuple(words)) as (_, address):
        yield address


@pytest.fixture(scope="module")
def loaded(browser: Browser, url: str) -> Iterator[Viewer]:
    with browser.new_context(viewport={"width": WIDE, "height": TALL}, color_scheme="light") as context:
        found = Viewer(context.new_page())
        found.open(url)
        yield found
        assert found.said == [], "the console stays silent"
        assert not [it for it in found.asked if not it.startswith((url, "data:"))], "nothing else is fetched"


@pytest.fixture
def page(loaded: Viewer) -> Viewer:
    """As it was when it was opened."""
    loaded.page.mouse.move(1, 1)
    loaded.page.evaluate(
        """() => {
            const { state } = window.fleet;
            const usual = { pane: "nodes", asTable: false, text: "", root: -1, kind: "all", group: "", sort: "harm",
                node: null, sick: "", focus: 0, tip: null, helping: false, theme: "light" };
            for (const [name, value] of Object.entries(usual)) state[name].value = value;
            document.activeElement?.blur();
        }"""
    )
    return loaded
