"""Find what lives in a room: every file is a member, its name is its address.

No decorators, no base classes, no registry. Members may also live outside the package: in `<room>/` of a folder that
ZOMBIESCOPE_PATH names, and in an installed package that declares an entry point (group `zombiescope.<room>`, name =
module). A member that cannot be loaded, that lacks what its room needs, or that raises what nobody expected, is
*broken*: it costs its own answer and nobody else's. Ours win over a stranger of the same name, and the first folder
over the next.
"""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import NamedTuple, TypeVar

from zombiescope.core.errors import Unparsable, Unreadable, UserError
from zombiescope.core.words import harmless
from zombiescope.members.contract import why_joins_nothing, why_names_nothing, why_unusable
from zombiescope.members.entry_points import entry_points
from zombiescope.members.outside import listed, read_trusted

Answer = TypeVar("Answer")
PATH = "ZOMBIESCOPE_PATH"  # folders, separated by colons
DEBUG = "ZOMBIESCOPE_DEBUG"  # 1: nothing is caught
MEMBER_ROOMS = ("probes", "signs", "laws", "questions", "remedies", "outputs", "gate", "lab", "cli")
OURS_WINS = "a member of this name comes with zombiescope"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_added: list[str] = []
_failed: dict[tuple[str, str], str] = {}  # members of ours that could not be loaded, and why


class Broken(NamedTuple):
    """A member that failed by our own fault or a stranger's, and how."""

    why: str


class Stranger(NamedTuple):
    """A member from outside the package: a file in a folder, or a module that a package declares."""

    room: str
    name: str
    path: str = ""
    module: str = ""

    @property
    def where(self) -> str:
        return self.path or f"entry point {self.module}"


def use_folder(folder: str) -> None:
    """One more folder of members and knowledge, before those of ZOMBIESCOPE_PATH."""
    _added.insert(0, os.path.abspath(folder))


def outside_folders() -> tuple[str, ...]:
    """The folders that users name for members and knowledge of their own."""
    named = [os.path.abspath(it) for it in os.environ.get(PATH, "").split(":") if it]
    return tuple(dict.fromkeys([*_added, *named]))


def names(room: str) -> list[str]:
    """The members of a room, without loading any of them."""
    return sorted({*_ours(room), *strangers(room)})


def load(room: str, name: str) -> ModuleType:
    stranger = strangers(room).get(name)
    if stranger is None:
        return importlib.import_module(f"zombiescope.{room}.{name}")
    found = _met(stranger)
    if isinstance(found, Broken):
        raise UserError(f"{room}/{name} is broken: {found.why}")
    return found


def member(room: str, name: str) -> ModuleType | Broken:
    """One member; Broken if it cannot be used."""
    stranger = strangers(room).get(name)
    return _own(room, name) if stranger is None else _met(stranger)


def members(room: str) -> dict[str, ModuleType | Broken]:
    """Every member of a room by its name; one that cannot be used is Broken."""
    return {name: member(room, name) for name in names(room)}


def healthy(room: str) -> dict[str, ModuleType]:
    """The members of a room that can be used."""
    return {name: it for name, it in members(room).items() if not isinstance(it, Broken)}


def guarded(act: Callable[[], Answer]) -> Answer | Broken:
    """What `act` returns, or Broken. The one place where any exception is caught, and only here.

    Our own three errors pass through: they are answers. So does Ctrl-C; a member's sys.exit() does not, it would end
    everybody's work. Under ZOMBIESCOPE_DEBUG=1 everything passes.
    """
    try:
        return act()
    except (Unreadable, Unparsable, UserError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if os.environ.get(DEBUG) == "1":
            raise
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})" if trace else ""
        return Broken(harmless(f"{type(error).__name__}: {_words(error)}{where}", most=1000))


def strangers(room: str) -> dict[str, Stranger]:
    """Members from outside by name, without those that were turned away."""
    return _found(room, outside_folders())[0]


def turned_away() -> dict[str, str]:
    """What lies in the folders of users, or is declared by a package, and is no member: "room/name", and why."""
    away = {label: why for room in MEMBER_ROOMS for label, why in _found(room, outside_folders())[1].items()}
    for folder in outside_folders():
        try:
            listed(folder)
        except Unreadable as error:
            away[f"{PATH}/{harmless(folder)}"] = error.why
    return away


def broken(room: str) -> dict[str, str]:
    """Strangers that cannot be used, and members of ours that could not when they were asked for: name, and why.

    Ours are not loaded for it: a recording is examined without any probe.
    """
    met = {name: _met(it) for name, it in strangers(room).items()}
    ours = {name: why for (its_room, name), why in _failed.items() if its_room == room}
    return ours | {name: it.why for name, it in met.items() if isinstance(it, Broken)}


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an exception of a stranger's making, whose text fails too
        return "it has no text"


@cache
def _ours(room: str) -> tuple[str, ...]:
    """As pkgutil.iter_modules, which takes 6 ms to import."""
    package = importlib.import_module(f"zombiescope.{room}")
    files = (it for folder in package.__path__ for it in os.listdir(folder))
    return tuple(sorted(it[:-3] for it in files if it.endswith(".py") and not it.startswith("_")))


def _own(room: str, name: str) -> ModuleType | Broken:
    try:
        found = guarded(lambda: importlib.import_module(f"zombiescope.{room}.{name}"))
    except (Unreadable, Unparsable, UserError) as error:
        found = Broken(str(error))
    if isinstance(found, Broken):
        _failed[room, name] = found.why
    return found


@cache
def _met(stranger: Stranger) -> ModuleType | Broken:
    """Loaded once, also if it fails: what a broken module does when it is imported, it does once."""
    try:
        found = guarded(lambda: _from_file(stranger) if stranger.path else _from_package(stranger))
        if isinstance(found, Broken):
            return found
        why = guarded(lambda: why_unusable(stranger.room, found) or _why_alone(stranger, found))
    except (Unreadable, Unparsable, UserError) as error:  # a file that root must not run, or that is gone
        return Broken(harmless(str(error), most=1000))
    if isinstance(why, Broken):
        return why
    return Broken(f"{why} ({stranger.where})") if why else found


def _why_alone(stranger: Stranger, member: ModuleType) -> str:
    """Why a member that is whole in itself does not fit to the others: a sign that it names is not there."""
    if stranger.room == "laws":
        earlier = [it for it in strangers("laws") if it < stranger.name]
        return why_joins_nothing(stranger.name, [*_ours("laws"), *earlier], names("signs"))
    return why_names_nothing(stranger.room, member, names("signs"))


@cache
def _found(room: str, folders: tuple[str, ...]) -> tuple[dict[str, Stranger], dict[str, str]]:
    """Who comes from outside, and who was turned away with the reason."""
    found: dict[str, Stranger] = {}
    away: dict[str, str] = {}
    if room not in MEMBER_ROOMS:
        return found, away
    installed = (Stranger(room, it.name, module=it.module) for it in entry_points(room))
    for it in (*_in_folders(room, folders, away), *installed):
        first = found.setdefault(it.name, it) if _NAME.fullmatch(it.name) and it.name not in _ours(room) else None
        if first is None:
            why = OURS_WINS if it.name in _ours(room) else "not a name for a member: small letters, digits and _"
        elif first != it:
            why = f"a member of this name is in {first.where}"
        else:
            continue
        away[f"{room}/{harmless(it.name)}"] = harmless(f"{why} ({it.where})", most=1000)
    return found, away


def _in_folders(room: str, folders: tuple[str, ...], away: dict[str, str]) -> Iterator[Stranger]:
    for folder in folders:
        inside = os.path.join(folder, room)
        try:
            files = listed(inside) if os.path.lexists(inside) else []  # a folder need not have every room
        except Unreadable as error:
            away[f"{room}/{harmless(inside)}"] = error.why
            continue
        for file in files:
            if file.endswith(".py") and not file.startswith(("_", ".")):
                yield Stranger(room, file[:-3], path=os.path.join(inside, file))


def _from_package(stranger: Stranger) -> ModuleType:
    module, colon, attribute = stranger.module.partition(":")
    if colon:
        why = f"the entry point names {attribute!r} of {module}; a member is a module, so name the module alone"
        raise Unreadable(f"{stranger.room}/{stranger.name}", why)
    return importlib.import_module(module)


def _from_file(stranger: Stranger) -> ModuleType:
    """A member from a folder: read once, and only if root may trust it."""
    content = read_trusted(stranger.path)
    code = compile(content, stranger.path, "exec", dont_inherit=True)
    address = f"zombiescope_outside.{stranger.room}.{stranger.name}"
    spec = importlib.util.spec_from_file_location(address, stranger.path)
    if spec is None:
        raise Unreadable(stranger.path, "not a Python file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(address)
    sys.modules[address] = module  # a dataclass looks its module up while it is made
    try:
        exec(code, module.__dict__)
    except BaseException:
        sys.modules.pop(address)
        if before is not None:
            sys.modules[address] = before
        raise
    # Who asks for its source (the reasons of its thresholds) gets what runs, and opens nothing once more.
    text = content.decode("utf-8", "replace")
    linecache.cache[stranger.path] = (len(content), None, text.splitlines(keepends=True), stranger.path)
    return module
