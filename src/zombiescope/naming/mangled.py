"""A mangled symbol, read from left to right within bounds: it is whatever a stranger's program holds."""

from __future__ import annotations

import re

DEEPEST = (
    96  # parts within parts; real programs reach 60. Each takes up to four calls, of the thousand that Python allows
)
MOST_STEPS = 1024  # parts read: a pack of packs, or a reference to a reference, is read again and again
_DECIMAL = "0123456789"
_NUMBER = re.compile("[0-9]+")
_LONGEST_NUMBER = 39  # digits: 128 bits
LONGEST_PART = 1 << 14  # characters: references double the length each time


class Odd(Exception):
    """Not understood, or too much of it: the symbol is shown as it is."""


class Mangled:
    """The text and where the reader is in it."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at
        self._depth = self._steps = 0

    def peek(self) -> str:
        """The next character, "" at the end."""
        return self.text[self.at : self.at + 1]

    def take(self, expected: str) -> bool:
        """Whether it goes on so; if it does, it is read."""
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def expect(self, expected: str) -> None:
        if not self.take(expected):
            raise Odd

    def number(self, digits: str = _DECIMAL) -> int:
        """Digits, at least one; letters where there are more than ten of them."""
        if digits is _DECIMAL:
            found = _NUMBER.match(self.text, self.at)
            if found is None or found.end() - self.at > _LONGEST_NUMBER:
                raise Odd
            self.at = found.end()
            return int(found[0])
        value, start, text = 0, self.at, self.text
        while self.at < len(text) and (digit := digits.find(text[self.at])) >= 0:
            value = value * len(digits) + digit
            self.at += 1
            if value > 1 << 128:
                raise Odd
        if self.at == start:
            raise Odd
        return value

    def counted(self) -> str:
        """A name after its length: 3foo."""
        length = self.number()
        if not 0 < length <= len(self.text) - self.at:
            raise Odd
        self.at += length
        return self.text[self.at - length : self.at]

    def begin(self) -> None:
        """A part that may hold others."""
        self._depth += 1
        self._steps += 1
        if self._depth > DEEPEST or self._steps > MOST_STEPS:
            raise Odd

    def end(self) -> None:
        self._depth -= 1


def short(text: str) -> str:
    """The same text, if it is not too long to be a part of another."""
    if len(text) > LONGEST_PART:
        raise Odd
    return text


def table(text: str) -> dict[str, str]:
    """Codes and what they stand for, as they are in the grammar: `c char; d double`."""
    return dict(item.strip().split(" ", 1) for item in text.replace("\n", " ").split(";"))
