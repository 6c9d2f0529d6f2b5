"""The page in a real browser: what a person does with it, and what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.outputs.incident_readings import SECONDS, STALLS
from tests.web import scene
from tests.web.test_server import viewing
from tests.web.viewer import Viewer, flame

from zombiescope.profile.chosen import Chosen
from zombiescope.profile.tree import planted
from zombiescope.web._axis import SECOND

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e


def test_a_drag_makes_the_flame_graph_of_that_time(viewer: Viewer) -> None:
    assert "everything" in viewer.text(".flame h2") and viewer.range("chosen") is None
    viewer.drag(71, 77)
    start, end = viewer.range("chosen") or (0, 0)
    assert abs(start - 71) < 1 and abs(end - 77) < 1
    assert "Flame graph" in viewer.text(".flame h2") and "everything" not in viewer.text(".flame h2")
    assert "mem_cgroup_nr_lru_pages" in viewer.text(".words")
    viewer.page.keyboard.press("Escape")
    assert viewer.range("chosen") is None


def test_in_the_heatmap_a_drag_goes_from_cell_to_cell_and_a_click_takes_a_second(viewer: Viewer) -> None:
    viewer.ask("state.show({ start: 60e9, end: 120e9 })")
    assert "column 1 s, row 20 ms" in viewer.text(".of-heatmap")
    x, _ = viewer.point(72.5, "heatmap")
    viewer.page.mouse.click(x, viewer.point(72.5, "heatmap")[1])
    assert viewer.range("chosen") == (72.0, 73.0)
    box = viewer.page.locator("canvas.heatmap").bounding_box()
    assert box
    row = box["height"] / 50  # the lowest row is the beginning of a second
    viewer.page.mouse.move(x, box["y"] + box["height"] - 10.5 * row)
    viewer.page.mouse.down()
    viewer.page.mouse.move(x, box["y"] + box["height"] - 14.5 * row, steps=3)
    viewer.page.mouse.up()
    assert viewer.range("chosen") == pytest.approx((72.2, 72.3))


def test_ctrl_drag_is_the_baseline_and_every_frame_has_its_difference(viewer: Viewer) -> None:
    viewer.drag(71, 77)
    viewer.drag(20, 60, ctrl=True)
    assert "Difference" in viewer.text(".flame h2") and "compared with" in viewer.text(".flame h2")
    rows = viewer.page.locator(".words tbody tr").all_inner_texts()
    kubelet = next(row for row in rows if row.startswith("kubelet"))
    assert "+" in kubelet.split("\t")[-1]
    found = scene.capture()
    origin = found.start // SECOND * SECOND
    now, then = (viewer.range(name) or (0, 0) for name in ("chosen", "baseline"))
    spans = [Chosen(start=origin + round(a * SECOND), end=origin + round(b * SECOND)) for a, b in (now, then)]
    difference = planted(found).difference(*spans)
    told = viewer.ask("{ now: [...state.now.value.total], then: [...state.then.value.total] }")
    assert told["now"] == difference.now.total.tolist() and told["then"] == difference.before.total.tolist()
    red = [key for key in viewer.pixels("flames") if key == "230,102,88"]
    assert red, "what rose is red"


def test_a_search_paints_the_time_it_was_found(viewer: Viewer) -> None:
    before = viewer.pixels("heatmap")
    viewer.page.keyboard.press("/")
    viewer.page.keyboard.type("^mem_cgroup")
    assert viewer.ask("state.search.value") == "^mem_cgroup"
    after = viewer.pixels("heatmap")
    violet = [key for key in after if key not in before and int(key.split(",")[2]) > int(key.split(",")[1]) + 40]
    assert violet, "matching time has a colour of its own"
    assert "% matched" in viewer.text(".sum")
    # By its name the time of the stalls is found, and no other.
    cells = viewer.ask(
        "(({ sums, cells }) => Array.from({ length: cells }, (_, i) => sums[i + 1] - sums[i]))(state.foundGrid.value)"
    )
    seconds = {place // 50 for place, heat in enumerate(cells) if heat}
    assert seconds == {begin + it for begin in STALLS for it in range(6)}
    viewer.page.locator("#search").fill("(")
    assert viewer.page.locator(".search.wrong").count() == 1, "not a regular expression: said, not thrown"


def test_a_click_on_an_event_compares_what_was_before_with_quiet_time(viewer: Viewer) -> None:
    x, y = viewer.point(STALLS[1] + 5, "event", 0)
    viewer.page.mouse.click(x, y)
    at = STALLS[1] + 5
    assert viewer.range("chosen") == (at - 10, at)
    start, end = viewer.range("baseline") or (0, 0)
    assert end - start >= 10 and not any(start < begin + 6 and end > begin for begin in STALLS), "nothing happened then"
    first = viewer.page.locator(".words table").last.locator("tbody tr").first.inner_text()
    assert first.startswith("mem_cgroup_nr_lru_pages") and "+" in first
    viewer.page.keyboard.press("n")
    assert viewer.range("chosen") == (STALLS[2] - 5, STALLS[2] + 5)


def test_a_click_on_a_stage_of_the_chain_goes_to_its_time(viewer: Viewer) -> None:
    viewer.page.locator(".chain .go", has_text="saturated_core").first.click()
    start, end = viewer.range("view") or (0, 0)
    begin = next(it for it in STALLS if start < it < end)
    assert end - start < 30 and viewer.range("chosen") == (begin, begin + 6)
    viewer.page.locator(".stage[data-reading] .proof summary").first.click()
    viewer.page.locator(".stage[data-reading] .proof .at").first.click()
    assert viewer.range("chosen") == (begin - 1, begin + 1)


def test_wheel_keys_and_axis_zoom_and_pan(viewer: Viewer) -> None:
    viewer.page.mouse.move(*viewer.point(360, "heatmap"))
    viewer.page.keyboard.down("Control")
    viewer.page.mouse.wheel(0, -600)
    viewer.page.keyboard.up("Control")
    viewer.page.wait_for_function(
        "() => { const { start, end } = window.zombiescope.state.view.value;"
        " return 200e9 < start && start < 360e9 && 360e9 < end && end < 520e9; }"
    )  # around the pointer
    start, _ = viewer.range("view") or (0, 0)
    viewer.page.keyboard.press("ArrowRight")
    assert (viewer.range("view") or (0, 0))[0] > start
    viewer.page.keyboard.press("0")
    assert viewer.range("view") == (0, SECONDS)
    viewer.drag(100, 200, "axis")
    start, end = viewer.range("view") or (0, 0)
    assert abs(start - 100) < 1 and abs(end - 200) < 1 and viewer.range("chosen") is None


def test_filters_by_core_process_and_cgroup(viewer: Viewer) -> None:
    viewer.page.locator("select[name=core]").select_option("5")
    assert viewer.ask("state.now.value.all") == flame(scene.capture(), Chosen(cpu=5))[0]
    viewer.page.locator("select[name=core]").select_option("")
    viewer.page.locator("select[name=process]").select_option("* kubelet")
    assert viewer.ask("state.now.value.all") == flame(scene.capture(), Chosen(comm="kubelet"))[0]
    viewer.page.locator("select[name=process]").select_option("")
    viewer.page.locator("select[name=cgroup]").select_option("/kubepods/pod1")
    assert viewer.ask("state.now.value.all") == flame(scene.capture(), Chosen(cgroup="/kubepods/pod1"))[0]


def test_an_address_brings_back_what_was_seen(viewer: Viewer, browser: Browser) -> None:
    viewer.drag(71, 77)
    viewer.drag(20, 60, ctrl=True)
    viewer.page.locator("#search").fill("seq_.*")
    viewer.page.locator("select[name=core]").select_option("5")
    viewer.ask("state.show({ start: 10e9, end: 100e9 })")
    viewer.page.wait_for_url(lambda url: "view=" in url)  # a little after the steps
    address = viewer.page.url
    assert all(f"{it}=" in address for it in ("range", "baseline", "search", "core"))
    with browser.new_context(viewport={"width": 1600, "height": 1200}) as context:
        other = Viewer(context.new_page())
        other.open(address)
        for name in ("chosen", "baseline", "view"):
            assert other.range(name) == viewer.range(name)
        assert other.ask("[state.search.value, state.filter.value.cpu]") == ["seq_.*", 5]


def test_dark_and_light(viewer: Viewer) -> None:
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light, cells = viewer.ask(paper), viewer.pixels("heatmap")
    viewer.page.keyboard.press("d")
    assert viewer.ask("document.documentElement.dataset.theme") == "dark"
    assert viewer.ask(paper) != light and viewer.pixels("heatmap").keys() != cells.keys()


def test_help_tells_the_keys(viewer: Viewer) -> None:
    viewer.page.keyboard.press("?")
    assert "Ctrl-drag" in viewer.text(".help")
    viewer.page.keyboard.press("Escape")
    assert viewer.page.locator(".help").count() == 0


def test_a_frame_tells_what_it_is_and_fills_the_graph_when_clicked(viewer: Viewer) -> None:
    box = viewer.page.locator("canvas.flames").bounding_box()
    assert box
    viewer.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 17 * 1.5)
    tip = viewer.text(".tip")
    assert "total" in tip and "process" in tip
    viewer.page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + 17 * 1.5)
    name = viewer.ask("state.bundle.tree.names[state.bundle.tree.label[state.focus.value]]")
    assert tip.startswith(name) and name != "all"


def test_hostile_names_are_shown_and_nothing_more(viewer: Viewer) -> None:
    words = viewer.page.locator(".words").inner_text()
    assert "</script><img src=x" in words, "shown as it is"
    assert viewer.page.locator("img").count() == 0
    everything = viewer.page.locator("body").inner_text()
    assert "\x1b" not in everything and "\\x1b[31m" in viewer.ask("state.bundle.tree.names.join(' ')")


def test_the_server_shows_the_same(browser: Browser, tmp_path: Path) -> None:
    folded = tmp_path / "stacks.folded"
    folded.write_text("init;main;work 30\ninit;main;read_[k] 12\n")
    with viewing(str(folded)) as (_, url), browser.new_context() as context:
        found = Viewer(context.new_page())
        found.open(url)
        assert found.ask("state.now.value.all") == 42
        assert "no times" in found.text(".notes") and found.page.locator(".surface").count() == 0
        assert {it.removeprefix(url) for it in found.asked if not it.startswith("data:")} == {
            "",
            "page.js",
            "page.css",
            "bundle",
        }
        assert found.said == []
