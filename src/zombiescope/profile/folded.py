"""Read folded stacks: a line a stack, outermost first, `process;function;function 42`.

The format: FlameGraph's stackcollapse scripts. The first name is the process; `_[k]` after a name marks the kernel's
functions, `_[i]` inlined ones and `_[j]` those of a just-in-time compiler. It has no times.

Two counts at the end of every line are a difference, as difffolded.pl and our own `--baseline` write it: before, after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

from zombiescope.core.samples import Function, Origin, Samples, Who
from zombiescope.profile.gathering import LARGEST, Gathering, Rounding, lines, named

_COUNT = re.compile(rb"([0-9]{1,18})(?:\.([0-9]{0,18}))?")
_SMALL = re.compile(rb"[0-9]{1,4}(?:\.[0-9]{0,18})?[eE]-?[0-9]{1,3}")  # as awk and Python print some fractions
_KERNEL = b"_[k]"
_MARKS = (_KERNEL, b"_[i]", b"_[j]")
_MOST_KEPT = 200_000  # names cached by their bytes: all dropped at this size, so that odd input cannot fill the memory
_FIRST = 20  # lines that are looked at to see what a file is
_AFTER = 1  # the time of samples of the second column; those of the first are before it


class _Line(NamedTuple):
    names: list[bytes]
    before: float | None  # the first of two counts
    now: float


def parse(pieces: Iterable[bytes], source: str = "folded stacks") -> Samples:
    """Parse stacks from text in pieces of any size."""
    gathering, known = Gathering(source), dict[bytes, int]()
    now, before = Rounding(), Rounding()
    numbered = enumerate(lines(pieces), 1)
    first = list(islice(numbered, _FIRST))
    two = _is_difference([line for _, line in first])
    for number, line in chain(first, numbered):
        if gathering.full:
            break
        found = _split(line, two=two)
        if found is None:
            if line.strip() and not line.startswith(b"#"):
                gathering.odd(number, line)
            continue
        who = gathering.who(Who(-1, named(found.names[0])))
        stack = gathering.stack(list(_numbered(found.names[1:], gathering, known)))
        if found.before is not None and (weight := before(found.before)):
            gathering.add(at=0, cpu=-1, tid=-1, who=who, stack=stack, weight=weight)
        if weight := now(found.now):
            gathering.add(at=_AFTER if two else 0, cpu=-1, tid=-1, who=who, stack=stack, weight=weight)
    if fractions := now.fractions + before.fractions:
        gathering.note(f"{fractions:,} counts are fractions: they are rounded so that the sum stays the same")
    origin = Origin("folded stacks of two profiles, a difference" if two else "folded stacks")
    return gathering.capture(clock="none", origin=origin, parted=_AFTER if two else None)


def looks_like(beginning: bytes) -> bool:
    """Whether a file with this beginning holds folded stacks: most of its first lines do, and one has a semicolon."""
    whole = beginning.split(b"\n")[: -1 if b"\n" in beginning else None]
    told = [line for line in whole[: 5 * _FIRST] if line.strip() and not line.startswith(b"#")][:_FIRST]
    good = [line for line in told if _split(line)]
    return any(b";" in line for line in good) and 2 * len(good) > len(told)


def _is_difference(first: list[bytes]) -> bool:
    """Whether lines that hold a stack have two counts; of four one may be damaged, but names may end in numbers."""
    good = [line for line in first if not line.startswith(b"#") and _split(line)]
    two = [line for line in good if _split(line, two=True)]
    return any(b";" in line for line in two) and len(good) - len(two) <= len(good) // 4


def _split(line: bytes, *, two: bool = False) -> _Line | None:
    """The names of a line and its count, or both of them. A stack of no names begins with a blank: py-spy writes it."""
    stack, *counts = line.rsplit(None, 1 + two) or (b"",)
    if line[:1] == b" " and len(counts) == two:
        stack, *counts = b"", stack, *counts
    numbers = [_number(it) for it in counts]
    if len(numbers) != 1 + two or None in numbers or (not stack and line[:1] != b" "):
        return None
    last, first = numbers[-1] or 0.0, numbers[0]
    return _Line(stack.split(b";"), first if two else None, last)


def _number(text: bytes) -> float | None:
    found = _COUNT.fullmatch(text)
    if found is None:
        return float(text) if _SMALL.fullmatch(text) and float(text) <= LARGEST else None
    return min(float(text) if found[2] else int(text.rstrip(b".")), LARGEST)


def _numbered(names: list[bytes], gathering: Gathering, known: dict[bytes, int]) -> Iterator[int]:
    """The number of each function."""
    if len(known) > _MOST_KEPT:
        known.clear()
    for name in names:
        number = known.get(name)
        if number is None:
            number = known[name] = gathering.function(_function(name))
        yield number


def _function(name: bytes) -> Function:
    marked = len(name) > 4 and name.endswith(_MARKS)
    return Function(named(name[:-4] if marked else name), marked and name.endswith(_KERNEL))
