"""The one loader of knowledge: entries of a kind, from the package and from folders that users name.

A kind is a table's name: [[agent]] in any file is an agent. Ours are in `<kind>s.toml` beside this file. Others come
from /etc/zombiescope/knowledge.d/*.toml, from `knowledge/` in each folder of ZOMBIESCOPE_PATH, and from --knowledge
DIR; they come before ours, so the first match is theirs. A wrong entry of theirs is left out: it is kept in `broken()`,
and the report says so.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from zombiescope.core.errors import Unreadable
from zombiescope.members.outside import read_trusted
from zombiescope.members.rooms import outside_folders

Entry = dict[str, Any]
Made = TypeVar("Made")
FOLDER = "/etc/zombiescope/knowledge.d"
KINDS = ("agent", "blind_cause", "function", "kernel", "kernel_message", "ray_message", "timer", "unit")
_added: list[str] = []
_wrong: dict[str, str] = {}  # where, and what is wrong with it


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    tables: dict[str, list[Entry]]


def use_folder(folder: str) -> None:
    """Read knowledge from one more folder (--knowledge). Call it before any entry is read."""
    _added.append(folder)
    _outside.cache_clear()


def entries(kind: str, make: Callable[[Entry], Made]) -> tuple[Made, ...]:
    """Every entry of a kind, made into a shape; the users' own first."""
    found = []
    for file in _outside():
        for number, entry in enumerate(file.tables.get(kind, []), 1):
            try:
                found.append(make(entry))
            except (ValueError, TypeError, KeyError, AttributeError, re.error) as error:
                _wrong[f"{file.path}: {kind} {number}"] = f"{type(error).__name__}: {error}"
    return (*found, *(make(entry) for entry in _ours(kind)))


def broken() -> dict[str, str]:
    """What is wrong with knowledge from outside, by its place. Complete once every kind was read."""
    _outside()
    return dict(_wrong)


@cache
def _ours(kind: str) -> list[Entry]:
    found: list[Entry] = tomllib.loads(files(__package__).joinpath(f"{kind}s.toml").read_text("utf-8"))[kind]
    return found


@cache
def _outside() -> tuple[_File, ...]:
    _wrong.clear()
    folders = [*_added, *(os.path.join(it, "knowledge") for it in outside_folders()), FOLDER]
    found = [_read(path) for folder in dict.fromkeys(folders) for path in _in_folder(folder)]
    return tuple(file for file in found if file is not None)


def _in_folder(folder: str) -> list[str]:
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".toml"))
    except FileNotFoundError:
        if folder in _added:  # the user named it
            _wrong[folder] = "no such folder"
    except OSError as error:
        _wrong[folder] = (error.strerror or str(error)).lower()
    return []


def _read(path: str) -> _File | None:
    try:
        told = tomllib.loads(read_trusted(path).decode("utf-8"))
    except Unreadable as error:
        _wrong[path] = error.why
        return None
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or nested without end
        _wrong[path] = f"not TOML: {str(error)[:200]}"
        return None
    tables = {}
    for kind, entries_ in told.items():
        if kind not in KINDS:
            _wrong[f"{path}: {kind}"] = f"not a kind of knowledge; there are {', '.join(KINDS)}"
        elif not isinstance(entries_, list) or not all(isinstance(it, dict) for it in entries_):
            _wrong[f"{path}: {kind}"] = f"write it as [[{kind}]]"
        else:
            tables[kind] = entries_
    return _File(path, tables)
