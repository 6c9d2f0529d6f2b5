"""Metrics as protocol buffers: the one form in which Prometheus takes native histograms.

MetricFamily{ name=1 help=2 type=3 metric=4{ label=1{ name=1 value=2 } gauge=2{ value=1 } counter=3{ value=1 }
histogram=7{ sample_count=1 sample_sum=2 bucket=3{ cumulative_count=1 upper_bound=2 } schema=5 zero_threshold=6
zero_count=7 positive_span=12{ offset=1 length=2 } positive_delta=13 } } }, each after its length.
(io.prometheus.client, in github.com/prometheus/client_model.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from zombiescope.agent.exposition import Family, Labels, cleaned, suffixed
from zombiescope.agent.histogram import SCHEMA, ZERO, Histogram
from zombiescope.profile.wire import message, number, packed

PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
_COUNTER, _GAUGE, _HISTOGRAM = 0, 1, 4


def delimited(families: Iterable[Family]) -> bytes:
    # A field's key is one byte: what follows it is the length and the message.
    return b"".join(message(1, _family(it))[1:] for it in families)


def _family(family: Family) -> bytes:
    kind = {"counter": _COUNTER, "histogram": _HISTOGRAM}.get(family.kind, _GAUGE)
    field = 3 if kind == _COUNTER else 2
    metrics = [message(4, _labels(labels) + message(field, _double(1, value))) for labels, value in family.samples]
    metrics += [message(4, _labels(labels) + message(7, _histogram(it))) for labels, it in family.histograms]
    name = suffixed(family)
    return message(1, name.encode()) + message(2, _text(family.says)) + number(3, kind) + b"".join(metrics)


def _labels(labels: Labels) -> bytes:
    pairs = ((name.encode(), _text(cleaned(value))) for name, value in labels.items())
    return b"".join(message(1, message(1, name) + message(2, value)) for name, value in pairs)


def _histogram(it: Histogram) -> bytes:
    said = number(1, it.count) + _double(2, it.total)
    said += b"".join(message(3, number(1, count) + _double(2, bound)) for bound, count in it.cumulative())
    if not it.fine and not it.zeros:
        return said
    said += number(5, SCHEMA << 1) + _double(6, ZERO) + number(7, it.zeros)  # a signed number is written twice as large
    deltas, before = list[int](), 0
    for counts, offset in _spans(it):
        said += message(12, number(1, _zigzag(offset)) + number(2, len(counts)))
        for count in counts:
            deltas.append(_zigzag(count - before))
            before = count
    return said + (packed(13, deltas) if deltas else b"")


def _spans(it: Histogram) -> Iterator[tuple[list[int], int]]:
    """Counts of buckets without a gap between them, and how far the first is from the end of those before."""
    end, at = 0, sorted(it.fine)
    while at:
        first = at[0]
        length = next((place for place, bucket in enumerate(at) if bucket != first + place), len(at))
        yield [it.fine[bucket] for bucket in at[:length]], first - end
        end, at = first + length, at[length:]


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _double(field: int, value: float) -> bytes:
    return bytes((field << 3 | 1,)) + struct.pack("<d", value)


def _text(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
