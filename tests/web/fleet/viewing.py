"""What tests ask of the fleet's page, and where its cells are."""

from __future__ import annotations

from typing import Any

from tests.web.viewer import Viewer

CELL = 26  # pixels: so few nodes get the largest cells


def of(viewer: Viewer, script: str) -> Any:
    return viewer.page.evaluate(f"() => {{ const {{ state }} = window.fleet, {{ fleet }} = state; return {script}; }}")


def names(viewer: Viewer) -> list[str]:
    found: list[str] = of(viewer, "[...state.arranged.value.order].map((it) => fleet.name[it])")
    return found


def node_at(viewer: Viewer, place: int) -> tuple[float, float]:
    """The middle of a cell of the first row, in pixels."""
    box = viewer.page.locator(".node-grid").bounding_box()
    assert box
    return box["x"] + (place + 0.5) * CELL, box["y"] + CELL / 2


def is_red(red: int, _: int, blue: int) -> bool:
    return red - blue > 60


def is_grey(red: int, _: int, blue: int) -> bool:
    """That of clear nodes: a lighter one than that of the unchecked."""
    return abs(red - blue) < 10 and red > 220
