"""Every frame with its self and total weight, its parent before it.

A difference also has the baseline's weights, and by how much each frame rose once both are scaled to the same size.
"""

from __future__ import annotations

import json
from typing import IO, Any

from zombiescope import __version__
from zombiescope.profile.picture import Compared, Picture, shown

SUFFIX, BINARY, COMPARES = ".json", False, True


def write(picture: Picture, out: IO[bytes]) -> None:
    capture, chosen, base = picture.capture, picture.chosen, picture.baseline
    head: dict[str, Any] = {
        "zombiescope": __version__,
        "schema": 1,
        "source": shown(capture.label),
        "unit": capture.unit,
        "clock": capture.clock,
        "hz": round(capture.hz, 3),
        "start": capture.start if chosen.start is None else chosen.start,
        "end": capture.end if chosen.end is None else chosen.end,
        "total": picture.now.all,
    }
    if base is not None:
        head["baseline"] = {"start": base.start, "end": base.end, "total": picture.before.all, "scale": picture.scale}
    # Frames one by one: a large capture has a million of them.
    out.write(json.dumps(head, indent=1).removesuffix("\n}").encode() + b',\n "nodes": [')
    for number, compared in enumerate(picture):
        out.write((",\n  " if number else "\n  ").encode() + json.dumps(_node(compared, picture)).encode())
    out.write(b"\n ]\n}\n")


def _node(compared: Compared, picture: Picture) -> dict[str, Any]:
    node, before_own, before_total = compared
    told = node._asdict() | {"name": shown(node.name), "module": shown(node.module) if node.module else ""}
    if picture.baseline is not None:
        told["baseline_own"], told["baseline_total"] = before_own, before_total
        told["delta_own"] = round(node.own - before_own * picture.scale, 3)
        told["delta_total"] = round(node.total - before_total * picture.scale, 3)
    return told
