"""What the page counts in the browser is what profile/ counts, for any source and range; what it lacks, it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.outputs.incident_readings import SECONDS
from tests.profile.captures import capture
from tests.web import scene
from tests.web.viewer import Viewer, flame

from zombiescope.core.samples import Function, Samples, Who
from zombiescope.core.timeline import Timeline
from zombiescope.profile.chosen import Chosen
from zombiescope.profile.heatmap import heatmap
from zombiescope.web._axis import CELL, SECOND
from zombiescope.web.onefile import one_file
from zombiescope.web.payload import bundle

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e


def test_flame_graphs_are_those_of_the_tree(viewer: Viewer) -> None:
    found = scene.capture()
    origin = found.start // SECOND * SECOND
    whole = viewer.ask("page.flame(null)")
    assert whole["total"] == flame(found, Chosen())
    for start, end in ((71, 77), (100.02, 100.04), (0, 1), (719, 720), (333.3335, 512.7)):
        inside = Chosen(start=origin + round(start * SECOND), end=origin + round(end * SECOND))
        told = viewer.ask(f"page.flame({{ start: {round(start * SECOND)}, end: {round(end * SECOND)} }})")
        assert told["total"] == flame(found, inside), (start, end)
    for words, chosen in (
        ("{ cpu: 5 }", Chosen(cpu=5)),
        ("{ comm: 'kubelet' }", Chosen(comm="kubelet")),
        ("{ pid: 4243 }", Chosen(pid=4243)),
        ("{ cgroup: '/kubepods/pod1' }", Chosen(cgroup="/kubepods/pod1")),
    ):
        assert viewer.ask(f"page.flame(null, {words})")["total"] == flame(found, chosen), words


def test_heat_is_that_of_the_heatmap(viewer: Viewer) -> None:
    found = scene.capture()
    origin = found.start // SECOND * SECOND
    cells = heatmap(found, CELL, start=origin, end=origin + SECONDS * SECOND).tolist()
    assert viewer.ask("page.heat()") == cells
    core = heatmap(found, CELL, Chosen(cpu=5), start=origin, end=origin + SECONDS * SECOND).tolist()
    assert viewer.ask("page.heat({ cpu: 5 })") == core


@pytest.mark.parametrize(
    ("what", "note", "strips"),
    [
        ("nothing", "no stacks", 0),
        ("no stacks", "no stacks", 1),
        ("no readings", "no readings", 1),
        ("wild", "no readings", 0),
    ],
)
def test_what_is_not_there_is_said(browser: Browser, tmp_path: Path, what: str, note: str, strips: int) -> None:
    empty, stack = replace(capture([]), clock="unix"), (Function("f", False),)
    some = capture([(it, it % 2, Who(1, "a"), stack, 1) for it in range(0, 9 * SECOND, CELL)])
    made = {
        "nothing": lambda: bundle(empty, Timeline()),
        "no stacks": lambda: bundle(empty, scene.timeline(), scene.case()),
        "no readings": lambda: bundle(replace(some, hz=50.0)),
        "wild": lambda: bundle(capture([(at, 0, Who(1, "a"), stack, 1) for at in (5, 9 * 10**18)])),
    }[what]()
    page = tmp_path / "page.html"
    page.write_bytes(one_file(made, what))
    with browser.new_context() as context:
        found = Viewer(context.new_page())
        found.open(page.as_uri())
        assert found.said == []
        assert note in found.text(".notes") and found.page.locator("canvas.cores").count() == strips


def rough(unit: str, clock: str, hz: float) -> Samples:
    """Three seconds of samples at any time, some of which end a spell without interrupts."""
    dice = np.random.default_rng(3)
    names = [Function(name, name > "c") for name in "abcdef"]
    rows = [
        (
            int(dice.integers(0, 3 * SECOND)),
            int(dice.integers(-1, 3)),
            Who(int(dice.integers(1, 4)), "abc"[int(dice.integers(3))], "/x"),
            tuple(names[it] for it in dice.integers(0, 6, int(dice.integers(1, 5)))),
            int(dice.choice([SECOND // 99, SECOND // 3, CELL + 1, 7]))
            if unit == "nanoseconds"
            else int(dice.integers(1, 4)),
        )
        for _ in range(400)
    ]
    return replace(capture(rows, unit=unit), clock=clock, hz=hz)


@pytest.mark.parametrize(("unit", "clock", "hz"), [("nanoseconds", "unix", 99.0), ("samples", "machine", 0.0)])
def test_any_capture_is_counted_as_profile_counts_it(
    browser: Browser, tmp_path: Path, unit: str, clock: str, hz: float
) -> None:
    found = rough(unit, clock, hz)
    file = tmp_path / "page.html"
    file.write_bytes(one_file(bundle(found), "rough"))
    with browser.new_context() as context:
        viewer = Viewer(context.new_page())
        viewer.open(file.as_uri())
        assert viewer.ask("page.heat()") == heatmap(found, CELL, start=0, end=3 * SECOND).tolist()
        for start, end in ((0, 3 * SECOND), (SECOND + 1, SECOND + 2), (17, 2_345_678_901)):
            told = viewer.ask(f"page.flame({{ start: {start}, end: {end} }}, {{ cpu: 1 }})")
            assert told["total"] == flame(found, Chosen(start=start, end=end, cpu=1))
        assert viewer.said == []


def test_merged_rows_keep_the_fine_heatmap(browser: Browser, tmp_path: Path) -> None:
    found, file = scene.capture(), tmp_path / "page.html"
    file.write_bytes(one_file(bundle(found, most_rows=30_000), "merged"))
    origin = found.start // SECOND * SECOND
    with browser.new_context() as context:
        viewer = Viewer(context.new_page())
        viewer.open(file.as_uri())
        assert "are merged" in viewer.text(".notes")
        assert viewer.ask("page.heat()") == heatmap(found, CELL, start=origin, end=origin + SECONDS * SECOND).tolist()
        tick = viewer.ask("state.bundle.header.tick")
        assert viewer.ask("page.flame({ start: 100e9, end: 160e9 })")["total"] == flame(
            found, Chosen(start=origin + 100 * SECOND, end=origin + 160 * SECOND)
        ), "whole ticks hold what they should"
        viewer.ask("state.choose({ start: 71.03e9, end: 72.01e9 })")
        chosen = viewer.ask("state.chosen.value")
        assert chosen["start"] % tick == chosen["end"] % tick == 0, "a range is drawn out to whole ticks"
        assert sum(viewer.ask("page.heat({ cpu: 5 })")) == pytest.approx(flame(found, Chosen(cpu=5))[0])
