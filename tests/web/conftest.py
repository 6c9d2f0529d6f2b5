"""The browser, the page of the scene as one file, and a viewer of it.

Anything on the console (an error, a refusal by the content policy) and any request beyond the page itself fails a test.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import CANNOT, PROJECT
from tests.web import scene
from tests.web.viewer import Viewer

from zombiescope.web.onefile import one_file
from zombiescope.web.payload import bundle

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDE, TALL = 1600, 1200
# A graphics card made of software takes more time than all that is drawn with it.
QUICK = ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one file of tests only: as long as it is open, nobody else in this process can run an event loop."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip(f"{CANNOT}no Chromium is installed")
    if not (PROJECT / "src/zombiescope/web/static/page.js").exists():
        pytest.skip("the page is not built: make page")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=QUICK)
        yield found
        found.close()


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "scene.html"
    path.write_bytes(one_file(bundle(scene.capture(), scene.timeline(), scene.case()), "scene"))
    return path


@pytest.fixture
def viewer(browser: Browser, file: Path) -> Iterator[Viewer]:
    with browser.new_context(viewport={"width": WIDE, "height": TALL}, color_scheme="light") as context:
        found = Viewer(context.new_page())
        found.open(file.as_uri())
        yield found
        assert found.said == [], "the console stays silent"
        assert {url for url in found.asked if not url.startswith("data:")} == {file.as_uri()}, "nothing is fetched"
