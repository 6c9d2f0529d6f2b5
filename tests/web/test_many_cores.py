"""A node with 192 cores on two NUMA nodes: the worst core is at the top, with its number, and everything still fits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from bench.page import readings
from tests.web import scene
from tests.web.viewer import Viewer

from zombiescope.core.timeline import Series, Timeline
from zombiescope.web.onefile import one_file
from zombiescope.web.payload import bundle

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e
CORES, WORST = 192, 137


def _timeline() -> Timeline:
    calm = readings(hours=1 / 30, cores=CORES)
    at = next(iter(calm.series("cpu_system_seconds_total", "cpu:0") for _ in (0,))).at
    whats = ("user", "system", "softirq", "idle")
    series = [
        calm.series(f"cpu_{what}_seconds_total", f"cpu:{cpu}") for cpu in range(CORES) for what in whats if cpu != WORST
    ]

    def one(what: str, subject: str, values: np.ndarray) -> Series:
        return Series(what=what, subject=subject, at=at, values=values, until=float(at[-1]), sources=("/proc/stat",))

    spent = np.arange(len(at)) * 0.98
    series += [
        one(f"cpu_{what}_seconds_total", f"cpu:{WORST}", spent if what == "system" else spent * 0.01) for what in whats
    ]
    series += [one("cpu_numa_node", f"cpu:{cpu}", np.full(len(at), cpu // 96)) for cpu in range(CORES)]
    return Timeline(series, {it.what: one(it.what, "", np.ones(len(at))) for it in series})


def test_the_worst_of_192_cores_is_on_top(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "large.html"
    file.write_bytes(one_file(bundle(scene.capture(seconds=120), _timeline()), "large"))
    with browser.new_context(viewport={"width": 1500, "height": 1000}) as context:
        viewer = Viewer(context.new_page())
        viewer.open(file.as_uri())
        names = viewer.page.locator(".label .core").all_inner_texts()
        assert names[0] == f"core {WORST}" and len(names) == 8
        tall = viewer.page.locator(".of-cores").evaluate("(it) => it.clientHeight")
        assert tall < 400, "192 cores in less than half a screen"
        x, _ = viewer.point(5, "cores")
        top = viewer.page.locator(".of-cores").bounding_box()
        assert top
        viewer.page.mouse.move(x, top["y"] + 5)
        assert viewer.text(".tip").startswith(f"core {WORST}, NUMA node 1 at") and "system 98%" in viewer.text(".tip")
        viewer.page.locator("select[name=order]").select_option("node")
        names = viewer.page.locator(".label .core").all_inner_texts()
        assert [it.split(" · ")[0] for it in names] == ["node 0"] * 4 + ["node 1"] * 4
        assert names[4] == f"node 1 · core {WORST}"
        viewer.page.locator("select[name=order]").select_option("number")
        assert viewer.page.locator(".label .core").count() == 0
        assert "192 · by mode" in viewer.text(".of-cores")
        assert viewer.said == []
