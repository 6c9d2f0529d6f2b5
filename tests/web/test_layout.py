"""The page on two screens, light and dark: its panes, its tables, and no serious fault for axe-core to find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.web.accessible import serious
from tests.web.viewer import Viewer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FloatRect

pytestmark = pytest.mark.e2e
SCREENS = [(1500, 1000, "light"), (1500, 1000, "dark"), (1280, 700, "light"), (1280, 700, "dark")]


@dataclass(frozen=True)
class Screen:
    viewer: Viewer
    wide: int
    tall: int

    def box(self, selector: str) -> FloatRect:
        found = self.viewer.page.locator(selector).first.bounding_box()
        assert found, selector
        return found


@pytest.fixture(scope="module", params=SCREENS, ids=lambda it: f"{it[0]}x{it[1]}-{it[2]}")
def screen(request: pytest.FixtureRequest, browser: Browser, file: Path) -> Iterator[Screen]:
    wide, tall, theme = request.param
    context = browser.new_context(viewport={"width": wide, "height": tall}, color_scheme=theme)
    viewer = Viewer(context.new_page())
    viewer.open(file.as_uri())
    yield Screen(viewer, wide, tall)
    assert viewer.said == []
    context.close()


def test_each_part_has_a_pane_and_all_fit_the_window(screen: Screen) -> None:
    viewer = screen.viewer
    viewer.reset()
    whole = viewer.ask("[document.documentElement.scrollHeight, document.documentElement.scrollWidth]")
    assert whole == [screen.tall, screen.wide], "the page itself does not scroll"
    time, flame, case = screen.box(".time"), screen.box(".graph"), screen.box(".case")
    assert time["y"] + time["height"] <= flame["y"] and flame["y"] + flame["height"] <= screen.tall + 1
    assert flame["height"] >= 150 and time["height"] >= 200 and case["x"] >= time["x"] + time["width"]
    scrolls = "(it) => [getComputedStyle(it).overflowY, it.scrollHeight > it.clientHeight]"
    panes = {name: viewer.page.locator(name).evaluate(scrolls) for name in (".time", ".graph", ".case", ".words")}
    assert {it[0] for it in panes.values()} == {"auto"} and panes[".case"][1] and panes[".time"][1]
    # In the deepest corner of the flame graph the axis is still in sight.
    viewer.page.locator(".graph").evaluate("(it) => { it.scrollTop = 1e6; }")
    viewer.page.locator(".time").evaluate("(it) => { it.scrollTop = 1e6; }")
    axis = screen.box(".part.head")
    assert axis["y"] >= 0 and axis["y"] + axis["height"] < screen.tall / 2


def test_frames_narrower_than_a_pixel_are_not_drawn_and_that_is_said(screen: Screen) -> None:
    viewer = screen.viewer
    viewer.reset()
    wide = viewer.page.locator(".graph .frames").evaluate("(it) => it.clientWidth")
    total, whole = viewer.ask("[[...state.now.value.total], state.now.value.all]")
    thin = sum(0 < it < whole / wide for it in total)
    said = viewer.page.locator(".hidden-frames")
    assert (said.count() == 0) if not thin else (f"{thin:,}" in said.inner_text())


@pytest.mark.parametrize("pane", ["flame", "callers", "tables", "compared", "help"])
def test_axe_finds_no_serious_fault(screen: Screen, pane: str) -> None:
    viewer, part = screen.viewer, "html"
    viewer.reset()
    if pane == "help":
        viewer.page.keyboard.press("?")
    elif pane == "compared":
        viewer.ask("state.choose({ start: 71e9, end: 77e9 })")
        viewer.ask("state.compare({ start: 72e9, end: 73e9 })")
        viewer.ask("state.search.value = '('")
        viewer.ask("state.focus.value = 2")
    elif pane != "flame":
        viewer.ask(f"state.pane.value = '{pane}'")
        part = ".flame"  # all else is as it was beside the flame graph
    assert serious(viewer, part) == []


def test_axe_would_have_found_one(screen: Screen) -> None:
    viewer = screen.viewer
    viewer.page.evaluate(
        "() => document.querySelector('h1').insertAdjacentElement('afterend', document.createElement('button'))"
    )
    try:
        assert [it for it in serious(viewer, "h1 + button") if it.startswith("button-name")]
    finally:
        viewer.page.evaluate("() => document.querySelector('h1 + button').remove()")


def test_all_that_is_drawn_is_in_a_table(screen: Screen) -> None:
    viewer = screen.viewer
    viewer.reset()
    viewer.page.keyboard.press("t")
    titles = viewer.page.locator(".tables caption").all_inner_texts()
    assert [it.split(" ")[0] for it in titles] == ["Findings", "Kernel", "Cores", "Curves", "Flame"]
    cores = viewer.page.locator(".tables table").nth(2).locator("tbody tr")
    assert cores.count() == 8 and cores.first.inner_text().startswith("core 5"), "most kernel time first"
    curves = viewer.page.locator(".tables table").nth(3).inner_text()
    assert all(it["name"] in curves for it in viewer.ask("state.bundle.header.series"))
    frames = viewer.page.locator(".tables table").nth(4).inner_text()
    assert "sgemm_kernel" in frames and "48%" in frames
    heads = viewer.page.locator(".tables th").count()
    assert heads == viewer.page.locator(".tables th[scope=col]").count() > 10
