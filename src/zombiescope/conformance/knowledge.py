"""A knowledge file: it is TOML, its kinds exist, and every entry is of its kind's shape."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.conformance._complaint import Complaint
from zombiescope.knowledge.tables import File, mistakes


def check(file: File, text: str) -> Iterator[Complaint]:
    """`text` is what it was read from: it shows where a mistake stands."""
    for kind, why in file.wrong.items():
        found = re.search(r"\(at line (\d+)", why)
        line = int(found[1]) if found else _line(text, kind, 1)
        yield Complaint(says=why, mend="the tables are described at the head of zombiescope's own", line=line)
    for why in mistakes(file):
        found = re.match(r"\[\[(\w+)\]\] number (\d+): ", why)
        line = _line(text, found[1], int(found[2])) if found else 0
        yield Complaint(says=why, mend="mend it: until then it is left out, and every diagnosis says so", line=line)


def _line(text: str, kind: str, number: int) -> int:
    """The line of the n-th table of a kind; 0 if it stands otherwise there."""
    heads = [at for at, line in enumerate(text.splitlines(), 1) if re.match(rf"\s*\[+\s*{re.escape(kind)}\s*\]", line)]
    return heads[number - 1] if kind and len(heads) >= number else 0
