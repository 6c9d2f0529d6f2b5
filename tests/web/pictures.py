"""The pictures of docs/, taken anew: python -m tests.web.pictures [fleet].

Of the page from the recording that comes with the tool; of the fleet's page from the fleet of docs/fleet.md.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from bench.fleet_page import serving
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from tests.conftest import PROJECT

from zombiescope.cli._sources import opened
from zombiescope.fleet.simulated.fleet import simulate
from zombiescope.places.sample import SAMPLE
from zombiescope.web.onefile import write

WIDE, TALL = 1500, 1000
LOGGED = "state.bundle.header.events.find((it) => it.lane === 'log')"
PICTURES = (
    ("page.png", "light", f"state.beforeEvent({LOGGED})"),
    ("page-dark.png", "dark", "state.search.value = 'css_rstat|cgroup'"),
    ("page-callers.png", "light", "state.search.value = '^vfs_read$'; state.about.value = NAMES.indexOf('vfs_read')"),
    ("page-tables.png", "dark", "state.pane.value = 'tables'"),
)


FLEET = (
    ("fleet-page.png", ".node-grid", ""),
    ("fleet-page-unit.png", ".findings", "state.group.value = 'unit:ecs.service'; state.node.value = first()"),
    ("fleet-page-time.png", ".leaking", "state.pane.value = 'time'"),
    ("fleet-page-flame.png", ".frames canvas", "state.pane.value = 'flame'"),
    ("fleet-page-common.png", ".cause", "state.pane.value = 'common'; state.sick.value = 'driver_reset'"),
)


def fleet() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        simulate(str(Path(folder, "fleet")), 2000, 12, 1, "incident", every=300)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with serving("./fleet", folder) as address:
            for name, shown, act in FLEET:
                page = browser.new_page(viewport={"width": 1360, "height": 780}, color_scheme="light")
                page.goto(address)
                page.wait_for_selector("html[data-ready]")
                first = "const first = () => state.arranged.value.order[0];"
                page.evaluate(f"() => {{ const {{ state }} = window.fleet; {first} {act}; }}")
                page.wait_for_selector(shown, timeout=120_000)
                page.wait_for_timeout(300)
                _small(page, PROJECT / "docs" / name)
        browser.close()


def _small(page: Page, file: Path) -> None:
    """With 256 colours, as few bytes as they take."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "page.html")
        with file.open("wb") as out:
            write(opened(SAMPLE), out)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, theme, act in PICTURES:
            page = browser.new_page(viewport={"width": WIDE, "height": TALL}, color_scheme=theme)  # type: ignore[arg-type]
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-ready]")
            pane = "state.pane.value = 'callers';" if "callers" in name else ""
            names = "const NAMES = state.bundle.tree.names;"
            page.evaluate(f"() => {{ const {{ state }} = window.zombiescope; {names} {act}; {pane} }}")
            page.wait_for_timeout(300)
            page.screenshot(path=str(PROJECT / "docs" / name))
        browser.close()


if __name__ == "__main__":
    fleet() if "fleet" in sys.argv else main()
