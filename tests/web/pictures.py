"""The pictures of docs/time-travel.md, taken anew: python -m tests.web.pictures."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.conftest import PROJECT
from tests.outputs.incident_readings import STALLS
from tests.web import scene

from zombiescope.core import Case
from zombiescope.web.onefile import one_file
from zombiescope.web.payload import bundle

WIDE, TALL = 1600, 1000


def tame(case: Case) -> Case:
    """Without the neighbour whose name is an attack: a test needs it, a picture does not."""
    findings = tuple(it for it in case.findings if it.sign != "defunct_processes")
    return replace(case, findings=findings, unexplained=())


def main() -> None:
    made = one_file(bundle(scene.capture(), scene.timeline(), tame(scene.case())), "gpu-17")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "page.html")
        file.write_bytes(made)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for theme, name, act in (
            ("light", "page.png", "beforeEvent(state.bundle.header.events.find((it) => it.lane === 'log'))"),
            ("dark", "page-dark.png", f"show({{ start: {STALLS[1] - 12}e9, end: {STALLS[1] + 18}e9 }})"),
        ):
            page = browser.new_page(viewport={"width": WIDE, "height": TALL}, color_scheme=theme)  # type: ignore[arg-type]
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-ready]")
            page.evaluate(f"() => {{ const {{ state }} = window.zombiescope; state.{act}; }}")
            if theme == "dark":
                page.locator(".chain .go", has_text="cgroup_walker").hover()
                page.locator("#search").fill("mem_cgroup")
            page.wait_for_timeout(300)
            page.screenshot(path=str(PROJECT / "docs" / name))
        browser.close()


if __name__ == "__main__":
    main()
