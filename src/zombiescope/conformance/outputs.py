"""An output: it can write a case in which nothing was found."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import ModuleType

from zombiescope.conformance._complaint import Complaint, parameters
from zombiescope.core import Case, Span
from zombiescope.core.timeline import Timeline


def check(name: str, output: ModuleType) -> Iterator[Complaint]:  # noqa: ARG001
    yield from parameters(output, "write", ["case", "timeline", "out"])
    out = io.StringIO()
    output.write(Case(node="node-a", kernel="6.1.0", span=Span(0.0, 10.0)), Timeline(), out)
    if not out.getvalue():
        yield Complaint(says="of an empty case it writes nothing", mend="say that nothing was found", about="write")
