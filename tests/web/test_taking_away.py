"""What a person takes away from the page: pictures, profiles for other tools, names, stacks, a link."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.npm import text_of
from tests.web import scene
from tests.web.viewer import Viewer, flame

from zombiescope.profile import json_files, pprof
from zombiescope.profile.chosen import Chosen
from zombiescope.web._axis import SECOND

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e
SPEEDSCOPE = "speedscope@1.25.0"
READERS = {"pprof": pprof.parse, "speedscope": json_files.parse}


@pytest.fixture(scope="module")
def viewer(browser: Browser, file: Path) -> Iterator[Viewer]:
    context = browser.new_context(viewport={"width": 1500, "height": 1000}, accept_downloads=True)
    found = Viewer(context.new_page())
    found.open(file.as_uri())
    found.drag(71, 77)
    yield found
    assert found.said == []
    context.close()


def _saved(viewer: Viewer, name: str, folder: Path) -> Path:
    with viewer.page.expect_download() as waiting:
        viewer.page.get_by_role("button", name=name, exact=True).click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def _wanted(viewer: Viewer) -> list[int]:
    found = scene.capture()
    origin = found.start // SECOND * SECOND
    start, end = viewer.range("chosen") or (0, 0)
    return flame(found, Chosen(start=origin + round(start * SECOND), end=origin + round(end * SECOND)))


def test_pprof_and_speedscope_hold_the_samples_of_the_range(viewer: Viewer, tmp_path: Path) -> None:
    whole = _wanted(viewer)[0]
    for name, ending in (("pprof", ".pb.gz"), ("speedscope", ".speedscope.json")):
        path = _saved(viewer, name, tmp_path)
        assert path.name.startswith("zombiescope-") and path.name.endswith(ending)
        packed = path.read_bytes()
        back = READERS[name]([gzip.decompress(packed) if name == "pprof" else packed])
        assert int(back.weight.sum()) == whole, name
        names = {it.name for it in back.name().functions}
        assert {"mem_cgroup_nr_lru_pages", "sgemm_kernel"} <= names, name


def test_speedscope_keeps_to_its_schema(viewer: Viewer, tmp_path: Path) -> None:
    told = json.loads(_saved(viewer, "speedscope", tmp_path).read_text())
    schema = json.loads(text_of(SPEEDSCOPE, "dist/release/file-format-schema.json", "ZOMBIESCOPE_SPEEDSCOPE_SCHEMA"))
    jsonschema.validate(told, schema)


def test_the_picture_is_what_is_drawn_and_names_are_text(viewer: Viewer, tmp_path: Path) -> None:
    root = ElementTree.fromstring(_saved(viewer, "SVG", tmp_path).read_text())
    space = root.tag.removesuffix("svg")
    assert {it.tag.removeprefix(space) for it in root.iter()} == {"svg", "title", "rect", "text"}
    titles = [it.text or "" for it in root.iter(f"{space}title")]
    assert any(it.startswith("mem_cgroup_nr_lru_pages (") for it in titles)
    assert any("</script><img src=x" in it for it in titles), "a hostile name, as text"


def test_a_name_a_stack_and_a_link_are_copied(viewer: Viewer) -> None:
    page = viewer.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    names = viewer.ask("state.bundle.tree.names")
    labels = viewer.ask("[...state.bundle.tree.label]")
    totals = viewer.ask("[...state.now.value.total]")
    node = next(i for i, it in enumerate(labels) if names[it] == "mem_cgroup_nr_lru_pages" and totals[i])
    viewer.ask(f"state.focus.value = {node}")

    def pasted(button: str) -> str:
        page.get_by_role("button", name=button, exact=True).click()
        page.wait_for_selector(".notice")
        assert "is on the clipboard" in viewer.text(".notice")
        return str(page.evaluate("() => navigator.clipboard.readText()"))

    assert pasted("copy name") == "mem_cgroup_nr_lru_pages"
    assert pasted("copy stack").splitlines() == [
        *reversed(scene.WALK.split()),
        *reversed(("runtime.goexit", "main.housekeeping", "cadvisor.GetStats", "read")),
        "kubelet",
    ]
    address = pasted("link")
    assert address.startswith("file://") and "range=" in address
