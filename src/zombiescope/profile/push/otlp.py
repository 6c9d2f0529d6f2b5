"""What OpenTelemetry takes: `POST /v1development/profiles`, an ExportProfilesServiceRequest, gzipped.

One resource for each series, one dictionary for all. The first entry of each table of the dictionary is empty. A sample
is one stack with the time of each of its samples, so that a server may show what happened within a second.
"""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Iterable, Sequence

import numpy as np

from zombiescope import __version__
from zombiescope.core.samples import Function
from zombiescope.profile.kernel_files import file_of
from zombiescope.profile.picture import shown
from zombiescope.profile.push.series import Series
from zombiescope.profile.wire import message, number, packed

_SECOND = 1_000_000_000
# Our labels, in the words of OpenTelemetry's conventions.
ATTRIBUTES = {
    "namespace": "k8s.namespace.name",
    "pod": "k8s.pod.name",
    "container": "k8s.container.name",
    "unit": "systemd.unit",
    "cpu": "cpu",  # as a text: Parca leaves numbers out
}


class _Tables:
    """The dictionary: what many samples share."""

    def __init__(self) -> None:
        self.texts = {"": 0}
        self.mappings = {"": 0}
        self.functions: dict[Function, int] = {}
        self.stacks: dict[tuple[int, ...], int] = {(): 0}

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def location(self, function: Function) -> int:
        """A location for each function, both with the same number."""
        file = file_of(function)
        self.mappings.setdefault(shown(file) if file else "", len(self.mappings))
        return self.functions.setdefault(function, len(self.functions) + 1)

    def stack(self, functions: Sequence[Function]) -> int:
        """Innermost first."""
        return self.stacks.setdefault(tuple(self.location(it) for it in reversed(functions)), len(self.stacks))

    def written(self) -> bytes:
        body = b""
        locations, functions = [message(2, b"")], [message(3, b"")]
        for function, place in self.functions.items():
            file = file_of(function)
            mapping = self.mappings[shown(file) if file else ""]
            name = self.text(shown(function.name))
            locations.append(message(2, number(1, mapping) + message(3, number(1, place))))
            functions.append(
                message(3, number(1, name) + number(2, name) + number(3, self.text(shown(file)) if file else 0))
            )
        body += b"".join(message(1, number(4, self.text(file))) for file in self.mappings)
        body += b"".join(locations) + b"".join(functions) + message(4, b"")
        body += b"".join(message(5, text.encode()) for text in self.texts)
        return body + message(6, b"") + b"".join(message(7, packed(1, it) if it else b"") for it in self.stacks)


def body(every: Iterable[Series], node: str) -> bytes:
    tables = _Tables()
    resources = b"".join(message(1, _resource(it, node, tables)) for it in every)
    return gzip.compress(resources + message(2, tables.written()), 6, mtime=0)


def _resource(one: Series, node: str, tables: _Tables) -> bytes:
    named = {"service.name": one.service, "host.name": node}
    named |= {ATTRIBUTES[name]: text for name, text in one.labels.items()}
    attributes = b"".join(message(1, _attribute(name, text)) for name, text in named.items())
    scope = message(1, message(1, b"zombiescope") + message(2, __version__.encode()))
    return message(1, attributes) + message(2, scope + message(2, _profile(one, tables)))


def _attribute(name: str, text: str) -> bytes:
    return message(1, name.encode()) + message(2, message(1, text.encode()))


def _profile(one: Series, tables: _Tables) -> bytes:
    samples = one.samples
    period = round(_SECOND / samples.hz) if samples.hz else 1
    said = message(1, number(1, tables.text("samples")) + number(2, tables.text("count")))
    order = np.argsort(samples.stack, kind="stable")  # within a stack by time
    edges = np.flatnonzero(np.diff(samples.stack[order], prepend=-1, append=-1))
    # How many samples of the period each stands for: one after a time without interrupts stands for many.
    counts = (
        np.maximum((samples.weight + period // 2) // period, 1) if samples.unit == "nanoseconds" else samples.weight
    )
    parts = [said]
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        rows = order[first:last]
        stack = tables.stack(samples.frames[int(samples.stack[rows[0]])])
        times = samples.at[rows].astype("<u8").tobytes()
        parts.append(message(2, number(1, stack) + packed(4, counts[rows].tolist()) + message(5, times)))
    parts.append(_fixed(3, one.start) + number(4, one.end - one.start))
    parts.append(message(5, number(1, tables.text("cpu")) + number(2, tables.text("nanoseconds"))))
    return b"".join(parts) + number(6, period) + message(7, uuid.uuid4().bytes)


def _fixed(field: int, value: int) -> bytes:
    """A fixed64: the wire's kind 1."""
    return bytes((field << 3 | 1,)) + value.to_bytes(8, "little")
