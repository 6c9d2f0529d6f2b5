"""A member in words: its docstring by headings, and its thresholds with the reasons written beside them."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

from zombiescope.diagnosis.settings import constants

_HEADING = re.compile(r"^([A-Z][a-z]+(?: [a-z]+)*): ", re.MULTILINE)


class Threshold(NamedTuple):
    """A number that decides, and why it is that number."""

    name: str
    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class Words:
    """What a member says of itself."""

    summary: str
    sections: dict[str, str]
    thresholds: tuple[Threshold, ...]


def describe(member: ModuleType) -> Words:
    return Words(*in_sections(inspect.getdoc(member) or ""), tuple(_thresholds(member)))


def in_sections(words: str) -> tuple[str, dict[str, str]]:
    """A docstring's summary, and its text by headings. The first line is no heading, though it may have a colon."""
    first, _, others = words.partition("\n\n")
    more, *rest = _HEADING.split(others)
    summary = f"{first} {more}"
    sections = {heading: " ".join(text.split()) for heading, text in zip(rest[::2], rest[1::2], strict=True)}
    return " ".join(summary.split()), sections


def _thresholds(member: ModuleType) -> list[Threshold]:
    """Every number in capitals with the comment on its line: a threshold without a reason is a guess."""
    try:
        source = inspect.getsource(member)
    except (OSError, TypeError):  # an installed package need not bring its source
        return []
    found = []
    for name, value in constants(member).items():
        line = re.search(rf"^{name} = [^#\n]*(?:# (.*))?$", source, re.MULTILINE)
        if line:
            found.append(Threshold(name, value, line[1] or ""))
    return found
