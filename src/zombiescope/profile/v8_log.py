"""Read what `node --prof-process --preprocess` makes of `node --prof`: pieces of code, and ticks with stacks.

The format: V8, tools/tickprocessor.mjs and tools/profile.mjs (class JsonProfile). A stack is numbers in pairs,
innermost first: a piece of code, or -1, and an offset in it, or the address itself.
"""

from __future__ import annotations

from typing import Any

from zombiescope.core.samples import Function, Origin, Samples, Who
from zombiescope.profile.gathering import Gathering
from zombiescope.profile.kernel_files import UNKNOWN

FORMAT = "V8's log"
_MOST_FRAMES = 10_000  # in one stack: deeper ones are cut, at their outer end
_LATEST = 1 << 52  # microseconds: later is nonsense
_IDLE = 7  # of V8's states: nothing to run (v8-unwinder.h, enum StateTag)


def shaped(found: dict[str, Any]) -> bool:
    return isinstance(found.get("ticks"), list) and isinstance(found.get("code"), list)


def read(found: dict[str, Any], source: str) -> Samples:
    gathering = Gathering(source)
    code, numbers = found["code"], dict[int, int]()
    stacks: dict[tuple[int, ...], int] = {}
    who, idle = gathering.who(Who(-1, "[all]")), 0
    for tick in found["ticks"]:
        if gathering.full:
            break
        if tick.get("vm") == _IDLE:
            idle += 1
            continue
        at = int(tick["tm"])
        if not 0 <= at <= _LATEST:
            raise ValueError(f"{at} is no time")
        key = tuple(tick["s"][: 2 * _MOST_FRAMES : 2])
        if key not in stacks:
            for place in key:
                if place not in numbers:
                    numbers[place] = gathering.function(_function(code, place))
            stacks[key] = gathering.stack([numbers[it] for it in reversed(key)])
        gathering.add(at=at * 1000, cpu=-1, tid=-1, who=who, stack=stacks[key])
    if idle:
        gathering.note(f"{idle:,} ticks while nothing ran are left out")
    return gathering.capture(origin=Origin(FORMAT, "node --prof", "CPU time"))


def _function(code: list[dict[str, Any]], place: int) -> Function:
    """Of a script: `name file:line:column`. Without a name in front of its place it has none."""
    if place < 0:
        return Function(UNKNOWN, False)
    it = code[place]
    name = str(it["name"])
    if it.get("type") != "JS":
        return Function(name, False, name if it.get("type") == "SHARED_LIB" else "")
    called, _, file = name.rpartition(" ")
    return Function(called.strip() or "(anonymous)", False, file.rsplit(":", 2)[0])
