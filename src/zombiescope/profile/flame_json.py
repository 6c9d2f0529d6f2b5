"""Read what `flame --format json` writes: every frame with its own weight. Of a difference both are read."""

from __future__ import annotations

from typing import Any

from zombiescope.core.samples import UNITS, Function, Origin, Samples, Who
from zombiescope.core.words import harmless
from zombiescope.profile.gathering import Gathering

FORMAT = "zombiescope's JSON"
_AFTER = 1  # the time of what is compared; the baseline is before it
_MOST_FRAMES = 10_000  # in one stack: deeper ones are cut, at their outer end


def shaped(found: dict[str, Any]) -> bool:
    return "zombiescope" in found and isinstance(found.get("nodes"), list)


def read(found: dict[str, Any], source: str) -> Samples:
    gathering = Gathering(source)
    two = "baseline" in found
    parents, whos, functions = list[int](), list[int](), list[int]()  # of each frame; -1 for none
    for node in found["nodes"]:
        if gathering.full:
            break
        parent, name = node["parent"], str(node["name"])
        if not -1 <= parent < len(parents):
            raise IndexError(f"no frame {parent} before frame {len(parents)}")
        who, function = whos[parent] if parent >= 0 else -1, -1
        if node["kind"] == "process":
            who = gathering.who(Who(-1, name))
        elif node["kind"] != "root":
            function = gathering.function(Function(name, node["kind"] == "kernel", str(node["module"])))
        parents.append(parent)
        whos.append(who)
        functions.append(function)
        for at, key in ((0, "baseline_own"), (_AFTER, "own")) if two else ((0, "own"),):
            weight = int(node[key])
            if weight > 0 and who >= 0:
                stack = gathering.stack(_path(len(parents) - 1, parents, functions))
                gathering.add(at=at, cpu=-1, tid=-1, who=who, stack=stack, weight=weight)
    unit = found.get("unit")
    return gathering.capture(
        unit=unit if unit in UNITS else UNITS[0],
        clock="none",
        origin=Origin(f"{FORMAT}, a difference" if two else FORMAT, harmless(f"zombiescope {found['zombiescope']}")),
        parted=_AFTER if two else None,
    )


def _path(place: int, parents: list[int], functions: list[int]) -> list[int]:
    """The functions from the outermost to a frame. Frames point at earlier ones, so it ends."""
    path: list[int] = []
    while place >= 0 and len(path) < _MOST_FRAMES:
        if functions[place] >= 0:
            path.append(functions[place])
        place = parents[place]
    return path[::-1]
