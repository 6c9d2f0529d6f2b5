"""Find what lives in a room: every file is a member, its name is its address.

No decorators, no base classes, no registry. Members may also live outside the package: in an installed package that
declares an entry point (group `zombiescope.<room>`, name = module), and in `<room>/` of a folder that ZOMBIESCOPE_PATH
names. A member that cannot be loaded, or that raises what nobody expected, is *broken*: it costs its own answer and
nobody else's. Ours win over a stranger of the same name.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TypeVar

from zombiescope.core.errors import Unparsable, Unreadable, UserError
from zombiescope.members.outside import read_trusted

Answer = TypeVar("Answer")
PATH = "ZOMBIESCOPE_PATH"  # folders, separated by colons
DEBUG = "ZOMBIESCOPE_DEBUG"  # 1: nothing is caught
MEMBER_ROOMS = ("probes", "signs", "laws", "questions", "remedies", "outputs", "gate", "lab", "cli")


@dataclass(frozen=True, slots=True)
class Broken:
    """A member that failed by our own fault or a stranger's, and how."""

    why: str


def outside_folders() -> list[str]:
    """The folders that ZOMBIESCOPE_PATH names."""
    return [os.path.abspath(it) for it in os.environ.get(PATH, "").split(":") if it]


def names(room: str) -> list[str]:
    """The members of a room, without loading any of them."""
    return sorted({*_ours(room), *_outside(room)})


def load(room: str, name: str) -> ModuleType:
    where = _outside(room).get(name)
    if name in _ours(room) or where is None:
        return importlib.import_module(f"zombiescope.{room}.{name}")
    return _from_file(room, name, where) if where.endswith(".py") else importlib.import_module(where)


def members(room: str) -> dict[str, ModuleType | Broken]:
    """Every member of a room by its name; one that cannot be loaded is Broken."""
    return {name: _loaded(room, name) for name in names(room)}


def healthy(room: str) -> dict[str, ModuleType]:
    """The members of a room that can be loaded."""
    return {name: member for name, member in members(room).items() if not isinstance(member, Broken)}


def guarded(act: Callable[[], Answer]) -> Answer | Broken:
    """What `act` returns, or Broken. The one place where any exception is caught, and only here.

    Our own three errors pass through: they are answers. Under ZOMBIESCOPE_DEBUG=1 everything does.
    """
    try:
        return act()
    except (Unreadable, Unparsable, UserError):
        raise
    except Exception as error:
        if os.environ.get(DEBUG) == "1":
            raise
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})" if trace else ""
        return Broken(f"{type(error).__name__}: {error}{where}")


def _loaded(room: str, name: str) -> ModuleType | Broken:
    try:
        return guarded(lambda: load(room, name))
    except (Unreadable, Unparsable, UserError) as error:  # a stranger's file that root must not run, or that is gone
        return Broken(str(error))


@cache
def _ours(room: str) -> tuple[str, ...]:
    package = importlib.import_module(f"zombiescope.{room}")
    return tuple(found.name for found in pkgutil.iter_modules(package.__path__) if not found.name.startswith("_"))


def _outside(room: str) -> dict[str, str]:
    """Members from outside by name: a file's path, or the module that an entry point names."""
    return _found(room, os.environ.get(PATH, "")) if room in MEMBER_ROOMS else {}


@cache
def _found(room: str, path: str) -> dict[str, str]:  # noqa: ARG001  # the path is part of the key
    found = dict(_entry_points().get(f"zombiescope.{room}", {}))
    for folder in outside_folders():
        try:
            files = sorted(os.listdir(os.path.join(folder, room)))
        except OSError:
            continue  # a folder need not have every room
        plain = [it for it in files if it.endswith(".py") and it[:-3].isidentifier() and not it.startswith("_")]
        found |= {it[:-3]: os.path.join(folder, room, it) for it in plain}
    return found


@cache
def _entry_points() -> dict[str, dict[str, str]]:
    """Entry points of our groups, by group and name.

    importlib.metadata costs 30 ms to import and reads every package's metadata; what we need is one short file of the
    packages that have it, in the format of the packaging guide.
    """
    groups: dict[str, dict[str, str]] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            packages = [it for it in os.listdir(folder or ".") if it.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for package in packages:
            try:
                with open(os.path.join(folder, package, "entry_points.txt"), "rb") as file:
                    text = file.read(1 << 20)
            except OSError:
                continue
            if b"[zombiescope." in text:
                _declared(text.decode("utf-8", "replace"), groups)
    return groups


def _declared(text: str, groups: dict[str, dict[str, str]]) -> None:
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif "=" in line and group.startswith("zombiescope.") and not line.startswith("#"):
            name, _, module = line.partition("=")
            groups.setdefault(group, {}).setdefault(name.strip(), module.strip())


def _from_file(room: str, name: str, path: str) -> ModuleType:
    """A member from a folder: read once, and only if root may trust it."""
    address = f"zombiescope_outside.{room}.{name}"
    known = sys.modules.get(address)
    if known is not None and known.__file__ == path:
        return known
    code = compile(read_trusted(path), path, "exec", dont_inherit=True)
    spec = importlib.util.spec_from_file_location(address, path)
    if spec is None:
        raise Unreadable(path, "not a Python file")
    module = importlib.util.module_from_spec(spec)
    exec(code, module.__dict__)
    sys.modules[address] = module
    return module
