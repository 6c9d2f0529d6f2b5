"""The one loader of knowledge: entries of a kind, from the package and from folders that users name.

A kind is a table's name: [[agent]] in any file is an agent. Ours are in `<kind>s.toml` beside this file. Others come
from --knowledge DIR, from `knowledge/` in each folder of ZOMBIESCOPE_PATH, from installed packages (entry-point group
`zombiescope.knowledge`, whose value is a package with .toml files) and from /etc/zombiescope/knowledge.d/*.toml; they
stand before ours, so that the first match is theirs. An entry of theirs that is wrong costs itself: it is kept in
`broken()`, and the report says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from zombiescope.core.errors import Unreadable
from zombiescope.members.entry_points import entry_points, folder_of
from zombiescope.members.outside import listed, read_regular, read_trusted
from zombiescope.members.rooms import outside_folders

Entry = dict[str, Any]
Made = TypeVar("Made")
FOLDER = "/etc/zombiescope/knowledge.d"
# The kinds, and the file here whose `SHAPES` says what an entry of it must be.
KINDS = {
    "agent": "agents",
    "blind_cause": "blind_causes",
    "drop": "drops",
    "function": "functions",
    "kernel": "kernels",
    "kernel_message": "kernel_messages",
    "package": "packages",
    "ray_message": "ray_messages",
    "symptom": "symptoms",
    "timer": "agents",
    "unit": "units",
}
_added: list[str] = []


class File(NamedTuple):
    """What a knowledge file holds by kind, and what is wrong with it: where in it, and what."""

    path: str
    tables: dict[str, list[Entry]]
    wrong: dict[str, str]


def use_folder(folder: str) -> None:
    """Read knowledge from one more folder (--knowledge). Call it before anything is asked."""
    _added.append(os.path.abspath(folder))


def entries(kind: str, make: Callable[[Entry], Made]) -> tuple[Made, ...]:
    """Every entry of a kind, made into a shape; the users' own first."""
    theirs = (it for file in _outside(_places()) for it, _ in made(file, kind, make) if it is not None)
    return (*theirs, *(make(entry) for entry in _ours(kind)))


def made(file: File, kind: str, make: Callable[[Entry], Made]) -> Iterator[tuple[Made | None, str]]:
    """Each entry of a kind in its shape, or None and what is wrong with it."""
    for number, entry in enumerate(file.tables.get(kind, []), 1):
        try:
            shape = make(entry)
            getattr(shape, "expression", None)  # patterns of ours are compiled when a line needs them, theirs at once
            yield shape, ""
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, re.error) as error:
            words = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            yield None, f"[[{kind}]] number {number}: {words}"


def broken() -> dict[str, str]:
    """What is wrong with knowledge from outside, by where it stands."""
    wrong: dict[str, str] = {}
    for file in _outside(_places()):
        complaints = [*file.wrong.values(), *mistakes(file)]
        if complaints:
            wrong[file.path] = "; ".join(complaints)
    return wrong


def mistakes(file: File) -> Iterator[str]:
    """What is wrong with the entries of a file, each tried with its kind's own shape."""
    for kind in file.tables:
        make = import_module(f"{__package__}.{KINDS[kind]}").SHAPES[kind]
        yield from (why for it, why in made(file, kind, make) if it is None)


def read(path: str, reading: Callable[[str], bytes] = read_trusted) -> File:
    """A knowledge file, whatever it is: what cannot be used of it is in `wrong`."""
    wrong: dict[str, str] = {}
    tables: dict[str, list[Entry]] = {}
    try:
        told = _toml(reading(path).decode("utf-8"))
    except Unreadable as error:
        return File(path, {}, {"": error.why})
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or nested without end
        return File(path, {}, {"": f"not TOML: {str(error)[:200]}"})
    for kind, found in told.items():
        if kind not in KINDS:
            wrong[kind] = f"{kind!r} is not a kind of knowledge; there are {', '.join(KINDS)}"
        elif not isinstance(found, list) or not all(isinstance(it, dict) for it in found):
            wrong[kind] = f"write {kind} as [[{kind}]]"
        else:
            tables[kind] = found
    return File(path, tables, wrong)


@cache
def _ours(kind: str) -> list[Entry]:
    from pkgutil import get_data  # importlib.resources takes 30 ms to import

    found: list[Entry] = _toml((get_data(__package__, f"{kind}s.toml") or b"").decode())[kind]
    return found


def _toml(text: str) -> dict[str, Any]:
    import tomllib  # 7 ms, and many profiles need no knowledge

    return tomllib.loads(text)


def _places() -> tuple[str, ...]:
    """Folders in order: the nearest to this one command first."""
    return (*_added, *(os.path.join(it, "knowledge") for it in outside_folders()), FOLDER)


@cache
def _outside(places: tuple[str, ...]) -> tuple[File, ...]:
    found = [file for place in dict.fromkeys(places[:-1]) for file in _in_folder(place, place in _added)]
    for point in entry_points("knowledge"):
        try:
            found += _in_folder(folder_of(point.module), named=True, reading=read_regular)
        except Unreadable as error:
            found.append(File(f"entry point {point.module}", {}, {"": error.why}))
    return (*found, *_in_folder(places[-1]))


def _in_folder(folder: str, named: bool = False, reading: Callable[[str], bytes] = read_trusted) -> Iterator[File]:
    """Its .toml files. That it is not there is a mistake only if somebody asked for it by name."""
    try:
        names = listed(folder) if named or os.path.lexists(folder) else []
    except Unreadable as error:
        yield File(folder, {}, {"": error.why})
        return
    for name in names:
        if name.endswith(".toml"):
            yield read(os.path.join(folder, name), reading)
