"""Metrics as Prometheus reads them: the text format 0.0.4, and OpenMetrics 1.0.0."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from zombiescope.agent.histogram import Histogram
from zombiescope.core.words import harmless

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
MOST_LABEL = 120  # characters of a label's value: a name from outside may have any length
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its series: values, or histograms."""

    name: str  # a counter's without _total, an info's without _info
    kind: str  # gauge, counter, histogram, info
    says: str
    samples: tuple[tuple[Labels, float], ...] = ()
    histograms: tuple[tuple[Labels, Histogram], ...] = ()


def written(families: Iterable[Family], *, open_metrics: bool) -> bytes:
    lines = [line for family in families for line in _lines(family, open_metrics)]
    if open_metrics:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _lines(family: Family, open_metrics: bool) -> Iterator[str]:
    whole = suffixed(family)
    name = family.name if open_metrics else whole
    kind = family.kind if open_metrics or family.kind != "info" else "gauge"
    says = family.says.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {name} {says.replace(chr(34), chr(92) + chr(34)) if open_metrics else says}"
    yield f"# TYPE {name} {kind}"
    for labels, value in family.samples:
        yield f"{whole}{_labels(labels)} {_number(value)}"
    for labels, it in family.histograms:
        for bound, count in it.cumulative():
            yield f"{family.name}_bucket{_labels({**labels, 'le': _bound(bound)})} {count}"
        yield f"{family.name}_sum{_labels(labels)} {_number(it.total)}"
        yield f"{family.name}_count{_labels(labels)} {it.count}"


def suffixed(family: Family) -> str:
    """The name of its series."""
    return family.name + {"counter": "_total", "info": "_info"}.get(family.kind, "")


def cleaned(value: str) -> str:
    return harmless(value, most=MOST_LABEL)


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    """A cgroup may be called `a"} 1\\nfake_metric 1`: no quote, backslash or newline of it stands for itself."""
    return cleaned(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _bound(value: float) -> str:
    return "+Inf" if math.isinf(value) else repr(float(value))


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
