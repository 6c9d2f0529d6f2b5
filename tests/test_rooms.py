"""What every room promises, checked for every file in it: a new member is tested on arrival.

The checks are zombiescope.conformance's: `zombiescope check` runs the same ones on members that live elsewhere.
"""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

import pytest

import zombiescope
from zombiescope.conformance import _source
from zombiescope.conformance._member import complaints
from zombiescope.members.rooms import MEMBER_ROOMS, Broken, members, names

PACKAGE = Path(zombiescope.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
MEMBERS = [(room, name) for room in MEMBER_ROOMS for name in names(room)]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_layers(path: Path) -> None:
    """A file is small and says what it is; it imports what its room may, and only doors touch the machine."""
    text = path.read_text()
    where = path.relative_to(PACKAGE).as_posix()
    assert not list(_source.of_file(room_of(path), where, text, ast.parse(text)))


@pytest.mark.parametrize(("room", "name"), MEMBERS)
def test_words(room: str, name: str) -> None:
    """Headings, and a reason for every threshold."""
    text = (PACKAGE / room / f"{name}.py").read_text()
    assert not list(_source.of_member(room, text, ast.parse(text)))


@pytest.mark.parametrize(("room", "name"), MEMBERS)
def test_member(room: str, name: str) -> None:
    """It has the shape of its room, and does what its room promises."""
    assert not list(complaints(room, name))


def test_any_exception_is_caught_in_exactly_one_place() -> None:
    caught = [path for path in FILES if re.search(r"except (Base)?Exception\b|except:", path.read_text())]
    assert [path.relative_to(PACKAGE).as_posix() for path in caught] == ["members/rooms.py"]


@pytest.mark.parametrize("room", MEMBER_ROOMS)
def test_no_member_is_broken(room: str) -> None:
    assert not [(name, found.why) for name, found in members(room).items() if isinstance(found, Broken)]


def test_laws_never_circle() -> None:
    graph: dict[str, set[str]] = {}
    for name in names("laws"):
        cause, _, effect = name.partition("_to_")
        graph.setdefault(effect, set()).add(cause)
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) >= len(graph)
