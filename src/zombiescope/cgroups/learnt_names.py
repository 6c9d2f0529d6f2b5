"""Generated names of any alphabet, learnt as they come: siblings that differ in one part only, which nobody would type.

Hex counters, base36, ULIDs, random letters: what they have in common is that there are many of them, that all but one
part is the same, and that the part is of few lengths or full of digits. Names that people give are of all lengths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from string import ascii_lowercase, ascii_uppercase

MANY = 20  # siblings that differ only in a generated part: fewer may well be names that people gave, on any node
LENGTHS = 4  # different lengths of that part at most: a counter in hex has four digits at 65,535
FORMS = 6  # different forms of that part, its numbers aside: u4711 and u4712 are one form, and known without learning
DIGITS = 0.9  # of the parts with a digit: then they may be of any length
MOST = 4_000  # patterns kept at a time, 2 KB each: the oldest is dropped, however many names come
_PARTS = 8  # of one name that are tried: a longer one is compared by its beginning and end
_NUMBER = re.compile(r"[0-9]+")
_PART = re.compile(r"([-._@:])")

Key = tuple[str, str, str]  # the parent's family, what is before the generated part, what is after it


@dataclass(slots=True)
class _Pattern:
    """What was seen in one place of a name."""

    values: dict[str, str] = field(default_factory=dict)  # by name
    letters: set[str] = field(default_factory=lambda: set("0123456789"))
    longest: int = 0
    learnt: bool = False

    def fits(self, value: str) -> bool:
        return len(value) <= self.longest + 1 and self.letters.issuperset(value)

    def generated(self) -> bool:
        values = self.values.values()
        if len({_NUMBER.sub("", it) for it in values}) < FORMS:
            return False
        few = len({len(it) for it in values}) <= LENGTHS
        return few or sum(any(map(str.isdecimal, it)) for it in values) >= DIGITS * len(values)


@dataclass(slots=True)
class LearntNames:
    """The patterns of all siblings met so far."""

    patterns: dict[Key, _Pattern] = field(default_factory=dict)

    def generalised(self, parent: str, name: str) -> str:
        """The name with its generated part as *, once that is learnt; else empty."""
        for key, value, many in _places(parent, name):
            pattern = self.patterns.get(key)
            if pattern is None:
                if len(self.patterns) >= MOST:
                    del self.patterns[next(iter(self.patterns))]
                pattern = self.patterns[key] = _Pattern()
            if pattern.learnt and pattern.fits(value):
                pattern.longest = max(pattern.longest, len(value))
                return f"{key[1]}*{key[2]}"
            if pattern.learnt or value.isdecimal() or value.startswith("<"):
                continue  # a plain number needs no learning
            pattern.values[name] = value
            if len(pattern.values) > many:
                if pattern.generated():
                    self._learn(parent, key, pattern)
                    return f"{key[1]}*{key[2]}"
                del pattern.values[next(iter(pattern.values))]
        return ""

    def _learn(self, parent: str, key: Key, pattern: _Pattern) -> None:
        pattern.learnt = True
        seen = set().union(*pattern.values.values())
        for alphabet in (ascii_lowercase, ascii_uppercase):  # 20 names show six letters of sixteen, not all of 26
            if found := seen.intersection(alphabet):
                seen |= set(alphabet[:6] if max(found).lower() <= "f" else alphabet)
        pattern.letters |= seen
        pattern.longest = max(map(len, pattern.values.values()))
        for name in pattern.values:  # they are explained, and no reason to learn anything else
            for other, *_ in _places(parent, name):
                if other != key and other in self.patterns:
                    self.patterns[other].values.pop(name, None)
        pattern.values.clear()


def _places(parent: str, name: str) -> Iterator[tuple[Key, str, int]]:
    """Each part that may be generated, the last one first, and then all between the first part and the ending.

    With each, how many names must differ there: twice as many for the widest, so that one part is learnt before it.
    The first part is a name that somebody gave, unless it is the only one, but for an ending.
    """
    parts = _PART.split(name)
    if len(parts) <= 2 * _PARTS:
        for place in range(len(parts) - 1, 1, -2):
            yield (parent, "".join(parts[:place]), "".join(parts[place + 1 :])), parts[place], MANY
    if len(parts) == 1 or (len(parts) == 3 and parts[1] == "."):
        yield (parent, "", "".join(parts[1:])), parts[0], MANY
    elif len(parts) > 3:
        tail = "".join(parts[-2:]) if parts[-2] == "." else ""
        head = "".join(parts[:2])
        yield (parent, head, tail), name[len(head) : len(name) - len(tail)], 2 * MANY
