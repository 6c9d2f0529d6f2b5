"""The report as a page, in a real browser: on a phone nothing is wider than the screen; on paper, dark on light."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zombiescope.__main__ import main
from zombiescope.outputs import html
from zombiescope.outputs._story import NOT_SURE, OK, PROBLEM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# The text of what is in sight: what is folded has no box.
IN_SIGHT = """() => [...document.querySelectorAll('.evidence table td')].filter((it) => it.checkVisibility(
    { contentVisibilityAuto: true, visibilityProperty: true }) && it.getBoundingClientRect().height > 0).length"""
COLOURS = """() => [...document.querySelectorAll('.badge')].map((it) => {
    const { color, backgroundColor } = getComputedStyle(it); return [color, backgroundColor]; })"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert main(("diagnose", "--sample", "--quiet", "--format", "html", "-o", str(path))) == 1
    return path


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark") as context:
        found = context.new_page()
        found.goto(report.as_uri())
        yield found


def test_the_verdict_has_its_colour() -> None:
    for state in (PROBLEM, OK, NOT_SURE):
        assert f".{state.lower().replace(' ', '-')} h1 b {{ color: var(--" in html.STYLE


@pytest.mark.parametrize("unfolded", [False, True])
def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page, unfolded: bool) -> None:
    if unfolded:
        page.evaluate("() => document.querySelectorAll('details').forEach((it) => { it.open = true; })")
        page.wait_for_function(f"() => ({IN_SIGHT})() > 20")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_on_paper_it_is_dark_on_light(page: Page, tmp_path: Path) -> None:
    page.emulate_media(media="print")
    for ink, paper in page.evaluate(COLOURS):
        assert brightness(ink) < 110 < 200 < brightness(paper), (ink, paper)
    page.pdf(path=str(tmp_path / "report.pdf"), format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 20_000


def brightness(colour: str) -> float:
    """Of `rgb(1, 2, 3)`."""
    return sum(int(it) for it in colour.removeprefix("rgb(").removesuffix(")").split(",")) / 3
