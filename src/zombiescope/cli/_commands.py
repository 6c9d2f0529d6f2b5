"""The command as data, read from the parsers that print --help: for completion scripts and man pages."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from zombiescope.cli._arguments import FILE, FOLDER, completed
from zombiescope.members.rooms import names


class Takes(Enum):
    """How many values follow an option, or make up an argument."""

    NONE = "none"
    ONE = "one"
    PERHAPS = "perhaps"
    SOME = "some"  # as many as there are, up to the next option


@dataclass(frozen=True, slots=True)
class Argument:
    flags: tuple[str, ...]  # none for one that is known by its place
    metavar: str
    says: str
    takes: Takes
    words: tuple[str, ...]  # its possible values, where they are known
    path: str  # FILE, FOLDER or neither
    required: bool
    repeats: bool


@dataclass(frozen=True, slots=True)
class Command:
    """The whole command, a verb of it, or what a verb is divided into."""

    words: tuple[str, ...]  # zombiescope lab run
    summary: str
    description: str
    epilog: str
    options: tuple[Argument, ...]
    places: tuple[Argument, ...]
    below: tuple[Command, ...]

    @property
    def name(self) -> str:
        return " ".join(self.words)

    def all(self) -> Iterator[Command]:
        """This one, and all below it."""
        yield self
        for each in self.below:
            yield from each.all()


def command_of(parser: argparse.ArgumentParser, words: tuple[str, ...] = (), summary: str = "") -> Command:
    """Everything below `parser`. What is hidden from --help is hidden here too."""
    words = words or (parser.prog,)
    below: list[Command] = []
    options: list[Argument] = []
    places: list[Argument] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            said = {it.dest: it.help or "" for it in action._choices_actions}
            below += [command_of(each, (*words, name), said.get(name, "")) for name, each in action.choices.items()]
        elif action.help != argparse.SUPPRESS:
            (options if action.option_strings else places).append(_argument(action))
    return Command(
        words=words,
        summary=summary,
        description=parser.description or "",
        epilog=parser.epilog or "",
        options=tuple(options),
        places=tuple(places),
        below=tuple(below),
    )


def _argument(action: argparse.Action) -> Argument:
    kinds = completed(action)
    words = [str(it) for it in action.choices] if action.choices else []
    words += [name for kind in kinds if kind not in (FILE, FOLDER) for name in names(kind)]
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if not metavar:
        metavar = "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
    return Argument(
        flags=tuple(action.option_strings),
        metavar=metavar,
        says=_says(action),
        takes=_takes(action),
        words=tuple(dict.fromkeys(words)),
        path=next((kind for kind in kinds if kind in (FILE, FOLDER)), ""),
        required=action.required,
        repeats=isinstance(action, argparse._AppendAction),
    )


def _takes(action: argparse.Action) -> Takes:
    if action.nargs in ("+", "*"):
        return Takes.SOME
    if action.nargs == "?":
        return Takes.PERHAPS
    return Takes.NONE if action.nargs == 0 else Takes.ONE


def _says(action: argparse.Action) -> str:
    """The words of --help, with what argparse fills in."""
    words = (action.help or "") % {**vars(action), "prog": "zombiescope"} if action.help else ""
    return " ".join(words.split())
