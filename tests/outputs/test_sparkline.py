"""The small drawings of a report: their axes are honest."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.nodes import T0
from tests.outputs.incident import finding
from tests.outputs.incident_readings import reading

from zombiescope.core.timeline import Series, Timeline
from zombiescope.outputs._sparkline import HEIGHT, sparklines


def drawn(what: str, values: list[float], *, counter: bool = False) -> str:
    at = np.arange(len(values), dtype=float) + T0
    kept = f"{what.removesuffix('_ratio')}_seconds_total" if counter else what
    series = Series(what=kept, subject="node", at=at, values=np.array(values), until=at[-1], sources=("x",))
    looks = {kept: Series(what="looked", subject=kept, at=at, values=np.ones(len(at)), until=at[-1], sources=("x",))}
    one = finding("s", "node", 10, 20, "s", reading(what, "node", 1, 10))
    return next(iter(sparklines(one, Timeline([series], looks))), "")


def height(drawing: str) -> float:
    """The part of the drawing that the line takes."""
    ys = [float(it) for it in re.findall(r"[ML]\d+ ([\d.]+)", drawing)]
    return (max(ys) - min(ys)) / (HEIGHT - 4)


@pytest.mark.parametrize(
    ("low", "high", "least", "most"),
    [(8_083, 8_085, 0.0, 0.2), (68_369, 68_441, 0.4, 0.7), (100, 900, 0.8, 1.0), (500, 600, 0.9, 1.0)],
)
def test_a_line_is_as_steep_as_it_matters(low: float, high: float, least: float, most: float) -> None:
    share = height(drawn("cgroups_known", list(np.linspace(low, high, 40))))
    assert least <= share <= most


def test_a_ratio_is_never_above_one() -> None:
    """A clock that jitters makes a core busier than it can be."""
    seconds = list(np.cumsum([0.0, *([0.2, 1.06] * 20)]))
    shown = drawn("cpu_system_ratio", seconds, counter=True)
    assert shown and re.search(r"<span>[\d.]+ – 1</span>", shown)


def test_a_steady_speed_is_flat() -> None:
    """1.8 to 2.2 restarts a second is no cliff: speeds and shares are drawn from zero."""
    restarts = list(np.cumsum([0.0, *([2.0] * 15), *([1.8] * 10), *([2.2] * 15)]))
    shown = drawn("unit_restarts_total", restarts)
    assert "a second" in shown and height(shown) < 0.25
