"""Read folded stacks: a line a stack, outermost first, `process;function;function 42`.

The format: FlameGraph's stackcollapse scripts. The first name is the process; `_[k]` after a name marks the kernel's
functions, `_[i]` inlined ones and `_[j]` those of a just-in-time compiler. It has no times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from zombiescope.core.samples import Function, Samples, Who
from zombiescope.profile.gathering import Gathering, lines, named

_COUNT = re.compile(rb"([0-9]{1,18})(?:\.[0-9]{0,18})?")  # flamegraph.pl takes fractions too; they are left off
_KERNEL = b"_[k]"
_MARKS = (_KERNEL, b"_[i]", b"_[j]")
_MOST_KEPT = 200_000  # names cached by their bytes: all dropped at this size, so that odd input cannot fill the memory


def parse(pieces: Iterable[bytes], source: str = "folded stacks") -> Samples:
    """Parse stacks from text in pieces of any size."""
    gathering = Gathering(source)
    known: dict[bytes, int] = {}
    for number, line in enumerate(lines(pieces), 1):
        if gathering.full:
            break
        found = _split(line)
        if found is None:
            if line.strip() and not line.startswith(b"#"):
                gathering.odd(number, line)
            continue
        (process, *names), weight = found
        if len(known) > _MOST_KEPT:
            known.clear()
        stack = []
        for name in names:
            function = known.get(name)
            if function is None:
                function = known[name] = gathering.function(_function(name))
            stack.append(function)
        who = gathering.who(Who(-1, named(process)))
        if weight:
            gathering.add(at=0, cpu=-1, tid=-1, who=who, stack=gathering.stack(stack), weight=weight)
    return gathering.capture(clock="none")


def looks_like(beginning: bytes) -> bool:
    """Whether a file with this beginning holds folded stacks: its first lines, except comments, all do."""
    whole = beginning.split(b"\n")[: -1 if b"\n" in beginning else None]
    told = [line for line in whole[:20] if line.strip() and not line.startswith(b"#")]
    return any(b";" in line for line in told) and all(map(_split, told))


def _split(line: bytes) -> tuple[list[bytes], int] | None:
    """The names of a line, and its count."""
    stack, *count = line.rsplit(None, 1)[:2] or [b""]
    found = _COUNT.fullmatch(count[0]) if count else None
    return (stack.split(b";"), int(found[1])) if found and stack else None


def _function(name: bytes) -> Function:
    marked = len(name) > 4 and name.endswith(_MARKS)
    return Function(named(name[:-4] if marked else name), marked and name.endswith(_KERNEL))
