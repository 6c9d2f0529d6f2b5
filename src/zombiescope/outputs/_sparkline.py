"""The series behind a finding as small drawings: what happened around it, with its own span shaded."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from zombiescope.core import Finding, Span, harmless
from zombiescope.core.timeline import Floats, Series, Timeline
from zombiescope.outputs._times import utc

MOST = 2  # drawings for one finding: the first of its evidence that vary
COLUMNS = 120  # each the highest value within it, so that a short peak is never lost
WIDTH, HEIGHT = 240, 44
FLAT = 0.002  # of the value: what moves less than that is drawn flatter
AROUND = 15.0  # seconds shown at least on either side; a long spell is shown with as much as its own length


@dataclass(frozen=True, slots=True)
class _Curve:
    name: str
    values: Floats  # by column, NaN where nothing was known
    window: Span
    from_zero: bool  # a speed or a share: 1.8 to 2.2 a second is steady


def sparklines(finding: Finding, timeline: Timeline) -> Iterator[str]:
    around = max(AROUND, finding.span.seconds)
    window = Span(
        max(finding.span.start - around, timeline.span.start), min(finding.span.end + around, timeline.span.end)
    )
    if window.seconds <= 0:
        return
    left = MOST
    for what, subject in dict.fromkeys((reading.what, reading.subject) for reading in finding.evidence):
        curve = _curve(timeline, what, subject, window)
        if left and curve and np.nanmax(curve.values) > np.nanmin(curve.values):
            yield _figure(curve, finding.span)
            left -= 1


def _curve(timeline: Timeline, what: str, subject: str, window: Span) -> _Curve | None:
    series, name, from_zero = _series(timeline, what, subject, window)
    part = series.between(window)
    if np.count_nonzero(np.isfinite(part.values)) < 2:
        return None
    edges = np.linspace(window.start, window.end, COLUMNS + 1)
    values = series.sampled(edges[:-1])
    column = np.clip(np.searchsorted(edges, part.at, side="right") - 1, 0, COLUMNS - 1)
    np.fmax.at(values, column, part.values)
    return _Curve(name, values, window, from_zero)


def _series(timeline: Timeline, what: str, subject: str, window: Span) -> tuple[Series, str, bool]:
    """What to draw for a reading, its name, and whether it is a speed or a share. A log has no curve."""
    kept, name = timeline.series(what, subject), f"{what} {subject}"
    if what.endswith("_log"):
        return timeline.series(""), "", False
    if what.endswith("_ratio") and not len(kept):
        rate = timeline.rate(f"{what.removesuffix('_ratio')}_seconds_total", subject)
        return replace(rate, values=np.minimum(rate.values, 1.0)), name, True  # more is jitter of the clock
    if what.endswith("_total"):
        rate = timeline.rate(what, subject)
        # A counter that mostly stands still is seen best as stairs, one that runs as its speed.
        if _runs(rate, window):
            return rate, f"{name}, a second", True
    return kept, name, what.endswith("_ratio")


def _runs(rate: Series, window: Span) -> bool:
    moved = rate.between(window).values > 0
    return bool(np.count_nonzero(moved) > len(moved) / 2)


def _figure(curve: _Curve, span: Span) -> str:
    known = curve.values[np.isfinite(curve.values)]
    low, high = float(known.min()), float(known.max())
    floor, top = (0.0, high) if curve.from_zero and low >= 0 else _axis(low, high)
    start, end = (_across(at, curve.window) for at in (span.start, span.end))
    name = html.escape(harmless(curve.name, most=120))
    return (
        f'<figure class="spark"><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{name}, from {_figured(low)} to {_figured(high)}">\n'
        f'<rect class="during" x="{start:.1f}" width="{max(end - start, 1.5):.1f}" y="0" height="{HEIGHT}"/>\n'
        f'<path d="{_path(curve.values, floor, top)}"/></svg>\n'
        f"<figcaption><span>{utc(curve.window.start)}</span><span>{utc(curve.window.end)}</span>"
        f"<span>{name}</span><span>{_figured(low)} – {_figured(high)}</span></figcaption></figure>"
    )


def _axis(low: float, high: float) -> tuple[float, float]:
    """What the drawing reaches from and to: from zero, unless that would flatten what moves.

    68,369 to 68,441 is a slope, not a line at the top; 8,083 to 8,085 is flat: what moves by less than FLAT of itself
    does not fill the drawing.
    """
    if 0 <= low < high / 2:
        return 0.0, high
    more = max(FLAT * max(abs(low), abs(high)) - (high - low), 0.0) / 2
    return low - more, high + more


def _across(at: float, window: Span) -> float:
    return min(max((at - window.start) / window.seconds, 0.0), 1.0) * WIDTH


def _path(values: Floats, floor: float, high: float) -> str:
    """A line with a gap wherever nothing was known."""
    path, drawing = [], False
    for column, value in enumerate(values):
        if not np.isfinite(value):
            drawing = False
            continue
        x, y = (column + 0.5) * WIDTH / COLUMNS, 2 + (1 - (value - floor) / (high - floor)) * (HEIGHT - 4)
        path.append(f"{'L' if drawing else 'M'}{x:.0f} {y:.1f}")
        drawing = True
    return "".join(path)


def _figured(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"
