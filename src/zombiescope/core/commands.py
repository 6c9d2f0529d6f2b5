"""Commands as text for a person to paste, made from argv and here alone: no name in them can become a command.

Whoever makes a cgroup, a unit, a mount or a network card chooses its name, and it may be `x;id;.service`. A word that a
terminal does not show as it is cannot be agreed to, so a command with one is no text at all, but "".
"""

from __future__ import annotations

import re
import shlex

from zombiescope.core.words import harmless

# What systemd accepts: unit_name_is_valid(), UNIT_NAME_MAX and unit_type_table in src/basic/unit-name.c and unit-def.c.
_KINDS = "service|scope|socket|slice|mount|automount|swap|timer|path|target|device"
_UNIT = re.compile(rf"(?=.{{1,255}}\Z)[A-Za-z0-9:_.\\@-]+\.(?:{_KINDS})", re.ASCII)
# Of a network card; the kernel's dev_valid_name() accepts more, such as $(id). Not . and .., which are folders.
_CARD = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.@-]{1,15}", re.ASCII)


def is_unit(name: str) -> bool:
    """Whether systemd would take this as the name of a unit."""
    return _UNIT.fullmatch(name) is not None


def not_a_unit(name: str) -> str:
    """Why no command is printed for it."""
    return f"no command is given, because systemd has no unit of the name {harmless(name, most=100)!r}"


def is_card(name: str) -> bool:
    """Whether this can be the name of a network card, and no path."""
    return _CARD.fullmatch(name) is not None


def can_be_shown(*argv: str, stdin: str = "") -> bool:
    """Whether a terminal shows each word as it is: no escape sequence, no byte that is no character."""
    return all(harmless(it, most=len(it)) == it for it in (*argv, *stdin.split("\n")))


def command(*argv: str, stdin: str = "") -> str:
    """For a shell, which takes it apart into just these words; "" if a terminal would not show it as it is."""
    if not argv or not can_be_shown(*argv, stdin=stdin):
        return ""
    return f"{_writing(stdin)} | {shlex.join(argv)}" if stdin else shlex.join(argv)


def in_sentence(*argv: str, stdin: str = "") -> str:
    """The same between backticks, so that a reader sees where it begins and ends; "" if it has one itself."""
    text = command(*argv, stdin=stdin)
    return f"`{text}`" if text and "`" not in text else ""


def operand(name: str) -> tuple[str, ...]:
    """A name as words that no program takes for an option."""
    return ("--", name) if name.startswith("-") else (name,)


def shown_by(*argv: str) -> str:
    """The source of a reading, as `$ command`. It is only looked at, so it is also made where `command` is ""."""
    return f"$ {shlex.join(argv)}"


def typed(source: str) -> str:
    """The source of a reading as it can be pasted: a path is quoted, what is a command or words stays."""
    return shlex.quote(source) if source.startswith("/") else source


def _writing(stdin: str) -> str:
    """On one line where it can be: a report indents what follows."""
    if stdin.endswith("\n"):
        return shlex.join(("printf", "%s\\n", *stdin[:-1].split("\n")))
    return shlex.join(("printf", "%s", stdin))
