"""The man pages, in the man(7) macros, from the parsers that print --help: one for the command, one for each verb."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from zombiescope import __version__
from zombiescope.cli._commands import Argument, Command, Takes
from zombiescope.knowledge.tables import FOLDER as KNOWLEDGE_FOLDER
from zombiescope.members.rooms import DEBUG, PATH
from zombiescope.places.own_folders import LAB_ENVIRONMENT, LEDGER_ENVIRONMENT, LEDGER_FILE, LEDGER_FOLDER

ENVIRONMENT = {
    PATH: "Folders with members of your own, separated by colons: `signs/`, `laws/`, `probes/`, `remedies/` and the "
    "other rooms, and `knowledge/`. Root loads only what nobody but root can change.",
    LEDGER_ENVIRONMENT: f"The folder of the ledger of `fix`, instead of {LEDGER_FOLDER}. `--ledger` goes before it.",
    "ZOMBIESCOPE_STORE": "The store that `zombiescope fleet` reads where --store is not given.",
    "ZOMBIESCOPE_SYSTEMD_BUS": "The D-Bus address of another systemd to ask, such as that of a container: "
    "`unix:path=/proc/4711/root/run/dbus/system_bus_socket`.",
    LAB_ENVIRONMENT: "Set by the lab for its own runs: only they see the lines that it injects into the kernel's log.",
    DEBUG: "With `1`, a fault of our own ends the command with a traceback.",
    "NO_COLOR": "If it is set and not empty, text has no colours. They are left out of pipes and files anyway.",
    "COLUMNS": "The width of text, where there is no terminal to ask.",
}
FILES = {
    f"{LEDGER_FOLDER}/{LEDGER_FILE}": "The ledger: what `fix --apply` has changed, and how it was before. "
    "`fix --undo` needs it.",
    f"{KNOWLEDGE_FOLDER}/*.toml": "Agents, units, kernel messages and functions of your own, beside ours.",
}
EXITS = {
    "0": "Clear: it was checked, and nothing was found.",
    "1": "Found: something is wrong, or there is something to do.",
    "2": "Usage: wrong arguments, a file that cannot be read or written, or a refusal. One line on stderr says why.",
    "3": "Blind: nothing was found, but not everything that matters could be seen; or a fault of our own.",
    "130": "Interrupted.",
}
BRACKETS = "A value in [brackets] is what holds without the option."
_SECTIONS = {"exit codes": "EXIT STATUS"}
_WIDTH = 78  # of the source's lines: mandoc objects to more than 80


def pages(root: Command, date: str) -> dict[str, str]:
    """Every page by its file's name. `date` is that of the source, as 2025-03-04."""
    made = {_file(root): _page(root, date, list(_overview(root)))}
    for verb in root.below:
        made[_file(verb)] = _page(verb, date, list(_verb(verb, root)))
    return made


def _file(command: Command) -> str:
    return f"{'-'.join(command.words)}.1"


def _page(command: Command, date: str, body: list[str]) -> str:
    name = "-".join(command.words)
    summary = command.summary or command.description
    head = [
        f'.TH {_code(name.upper())} 1 {date} "zombiescope {__version__}" "User Commands"',
        ".nh",  # a command that is broken by a hyphen cannot be pasted
        ".SH NAME",
        _wrapped(rf"{_code(name)} \- {_prose(summary[:1].lower() + summary[1:].rstrip('.'))}"),
        ".SH SYNOPSIS",
        *_synopsis(command),
        ".SH DESCRIPTION",
        *_paragraphs(command.description),
    ]
    return "\n".join([*head, *body]) + "\n"


def _overview(root: Command) -> Iterator[str]:
    yield ".SH COMMANDS"
    for verb in root.below:
        yield from (".TP", _reference(verb), _prose(_sentence(verb.summary)))
    yield from _options(root)
    yield from (".PP", BRACKETS)
    sections = dict(_epilog(root.epilog))
    yield from _examples(sections.get("examples", []))
    for heading, entries in (("EXIT STATUS", EXITS), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        yield f".SH {heading}"
        for name, says in entries.items():
            yield from (".TP", rf"\fB{_code(name)}\fR", _prose(says))
    yield from _see_also(root.below)


def _verb(verb: Command, root: Command) -> Iterator[str]:
    yield from _places(verb)
    yield from _options(verb)
    if verb.below:
        yield ".SH COMMANDS"
        for each in verb.below:
            yield f".SS {_code(each.name)}"
            yield from _synopsis(each)
            yield from (".PP", _prose(_sentence(each.summary)))
            for argument in (*each.places, *each.options):
                yield from _argument(argument)
    for key, lines in _epilog(verb.epilog):
        if key == "examples":
            yield from _examples(lines)
        else:
            yield from (f".SH {_SECTIONS.get(key, key.upper())}", _prose(_sentence(" ".join(lines))))
    if "exit codes" not in dict(_epilog(verb.epilog)):
        yield from (".SH EXIT STATUS", "0 done, 2 usage.")
    for heading in ("ENVIRONMENT", "FILES"):
        yield from (f".SH {heading}", f"See {_reference(root)}.")
    yield from _see_also([root])


def _synopsis(command: Command) -> list[str]:
    parts = [rf"\fB{_code(command.name)}\fR", r"[\fIOPTION\fR]..."]
    if command.below:
        parts.append(rf"\fI{'VERB' if len(command.words) == 1 else 'COMMAND'}\fR ...")
    for place in command.places:
        name = rf"\fI{_code(place.metavar)}\fR" + ("..." if place.takes is Takes.SOME else "")
        parts.append(name if place.required else f"[{name}]")
    return [" ".join(parts)]


def _places(command: Command) -> Iterator[str]:
    said = [place for place in command.places if place.says]
    if said:
        yield ".SH ARGUMENTS"
    for place in said:
        yield from _argument(place)


def _options(command: Command) -> Iterator[str]:
    yield ".SH OPTIONS"
    for option in command.options:
        yield from _argument(option)


def _argument(argument: Argument) -> Iterator[str]:
    value = rf"\fI{_code(argument.metavar)}\fR"
    flags = ", ".join(rf"\fB{_code(flag)}\fR" for flag in argument.flags)
    if argument.takes is Takes.PERHAPS and flags:
        value = f"[{value}]"
    yield ".TP"
    yield flags if argument.takes is Takes.NONE else f"{flags} {value}".strip()
    yield _prose(_sentence(argument.says)) if argument.says else r"\&"


def _epilog(text: str) -> Iterator[tuple[str, list[str]]]:
    """Its parts by their first words: `examples:`, `exit codes: …`, `times: …`."""
    key, lines = "", list[str]()
    for line in text.splitlines():
        found = re.fullmatch(r"([a-z][a-z ]*):(?: (.*))?", line)
        if found:
            if key:
                yield key, lines
            key, lines = found[1], [found[2]] if found[2] else []
        elif line.strip():
            lines.append(line)
    if key:
        yield key, lines


def _examples(lines: list[str]) -> Iterator[str]:
    """A command, and after some spaces or on the next line what it does."""
    if lines:
        yield ".SH EXAMPLES"
    for line in lines:
        if line.startswith(" " * 8):
            yield _prose(line.strip())
            continue
        command, *says = re.split(r" {2,}", line.strip(), maxsplit=1)
        yield from (".TP", rf"\fB{_code(command)}\fR", *map(_prose, says))


def _see_also(commands: Sequence[Command]) -> Iterator[str]:
    yield ".SH SEE ALSO"
    yield ",\n".join(map(_reference, commands))


def _reference(command: Command) -> str:
    return rf"\fB{_code('-'.join(command.words))}\fR(1)"


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield ".PP"
        yield _prose(" ".join(paragraph.split()))


def _sentence(text: str) -> str:
    """As a sentence of a page: it begins with a capital and ends with a stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith((".", "]")) else ".")


def _prose(text: str) -> str:
    """Text, in which `this` is what somebody types."""
    parts = re.split(r"`([^`]+)`", text)
    whole = "".join(rf"\fB{_code(part)}\fR" if number % 2 else _text(part) for number, part in enumerate(parts))
    return _wrapped(whole)


def _wrapped(text: str) -> str:
    """Several lines of source for one of text; a line that begins with a dot or a quote would be a request."""
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(rf"\&{line}" if line.startswith((".", "'")) else line for line in lines)


def _text(text: str) -> str:
    # An option in a sentence is typed too: its hyphens must be those of a keyboard.
    words = re.sub(r"(?<![\w-])--?[a-z][a-z-]*", lambda it: it[0].replace("-", "\0"), text)
    return _plain(words).replace("\0", r"\-")


def _code(text: str) -> str:
    """What can be pasted: no character is made nicer."""
    marks = {"-": r"\-", "'": r"\(aq", "`": r"\(ga", "~": r"\(ti", "^": r"\(ha"}
    whole = _plain(text)
    for mark, written in marks.items():
        whole = whole.replace(mark, written)
    return re.sub(r"^\.", r"\\&.", whole)


def _plain(text: str) -> str:
    """ASCII alone, since a page may be shown anywhere; groff and mandoc both know \\[u00B5]."""
    return "".join(it if it.isascii() else rf"\[u{ord(it):04X}]" for it in text.replace("\\", r"\e"))
