"""argparse with an answer to a typing mistake: which verb or option is nearest to what was typed."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable
from typing import NoReturn

from zombiescope.core.words import harmless

_UNKNOWN = re.compile(r"unrecognized arguments: (.*)", re.DOTALL)
_NO_CHOICE = re.compile(r"(argument \S+: invalid choice: '(.*)') \(choose from (.*)\)", re.DOTALL)
_LONGEST = 4_000  # characters of what was typed that are shown


class Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse makes one for each argument that is added, and for its width loads shutil and all that packs files."""

    def __init__(self, prog: str, indent_increment: int = 2, max_help_position: int = 24) -> None:
        super().__init__(prog, indent_increment, max_help_position, width=_columns() - 2)


def _columns() -> int:
    """As shutil.get_terminal_size."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):  # closed, or no terminal
        return 80


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Where to read on, then the mistake in one line; the usage of a verb would be a screen of options."""
        if unknown := _UNKNOWN.fullmatch(message):
            typed = [it.partition("=")[0] for it in unknown[1].split() if it.startswith("-")]
            owners = _owners(self)
            elsewhere = [it for it in typed if it in owners]
            message += "".join(f"; {it} is an option of {', '.join(owners[it])}" for it in elsewhere)
            message += did_you_mean([it for it in typed if it not in owners], owners)
        elif choice := _NO_CHOICE.fullmatch(message):
            choices = [it.strip("' ") for it in choice[3].split(",")]
            message = choice[1] + (did_you_mean([choice[2]], choices) or f" (choose from {choice[3]})")
        self.exit(2, f"see `{_typed(self)} --help`\nzombiescope: error: {harmless(message, most=_LONGEST)}\n")


def _typed(parser: argparse.ArgumentParser) -> str:
    """The command with the verb that was typed: it alone was loaded, if it is one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and len(action.choices) == 1:
            return str(next(iter(action.choices.values())).prog)
    return parser.prog


def did_you_mean(typed: Iterable[str], known: Iterable[str], most: int = 1) -> str:
    """The end of an error line, with so many for each at most; empty if nothing known is near."""
    from difflib import get_close_matches  # 5 ms, and only after a mistake

    known = sorted(set(known))
    near = dict.fromkeys(it for each in typed for it in get_close_matches(each, known, n=most))
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _owners(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Options, and the commands that have each. Of all verbs that were loaded: only the one that was typed is."""
    found: dict[str, list[str]] = {}
    for action in parser._actions:
        for flag in (it for it in action.option_strings if it.startswith("--")):
            found.setdefault(flag, []).append(f"`{parser.prog}`")
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                for flag, owners in _owners(each).items():
                    found.setdefault(flag, []).extend(owners)
    return found
