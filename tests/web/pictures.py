"""The pictures of docs/, taken anew from the recording that comes with the tool: python -m tests.web.pictures."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.conftest import PROJECT

from zombiescope.cli._sources import opened
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
    main()
