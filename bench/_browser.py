"""A real browser for benches of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zombiescope.core import UserError

if TYPE_CHECKING:
    from playwright.sync_api import Page

OFTEN = 5  # loads, of which the best counts: other work on the machine is not the page's


@contextmanager
def browsing() -> Iterator[Page]:
    """A page of an ordinary size."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise UserError("playwright is not installed") from None
    if chromium is None:
        raise UserError("no Chromium is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            yield browser.new_page(viewport={"width": 1600, "height": 1000})
        finally:
            browser.close()


def first_picture(page: Page, address: str, painted: str) -> float:
    """Milliseconds, as the page itself counts them: `painted` is where it says so."""
    found = []
    for _ in range(OFTEN):
        page.goto(address)
        page.wait_for_selector("html[data-ready]", timeout=120_000)
        found.append(float(page.evaluate(painted)))
    return min(found)
