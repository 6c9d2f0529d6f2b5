"""What the arguments of several verbs share: options of one form, and what a shell can complete for an argument."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

FILE, FOLDER = "file", "folder"  # a file or a folder; a folder only
_KEPT = "completes"


def add_format(parser: argparse.ArgumentParser, *formats: str) -> None:
    """--format, one of these, the first unless another is asked for; and -o."""
    parser.add_argument("--format", choices=formats, default=formats[0], help=f"output format [{formats[0]}]")
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """-o: a file in place of stdout, whatever the verb writes there (`streams_of`)."""
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file [stdout]")
    complete(parser, output=FILE)


def add_optional(parser: argparse.ArgumentParser, name: str, says: str, default: str | None = None) -> None:
    """An argument without a flag that may be left out."""
    parser.add_argument(name, nargs="?", default=default, metavar=name.upper(), help=says)


def add_repeatable(
    parser: argparse.ArgumentParser, option: str, metavar: str, says: str, choices: Iterable[str] | None = None
) -> None:
    """An option that may be given several times; its values are a list, empty if it is not given."""
    parser.add_argument(option, action="append", default=[], choices=choices, metavar=metavar, help=says)


def add_measure(parser: argparse.ArgumentParser) -> None:
    """Which of several events or values of a file is shown."""
    parser.add_argument(
        "--event", metavar="NAME", help="of perf's events the one to show [the CPU's, else the most sampled]"
    )
    parser.add_argument(
        "--value", metavar="NAME", help="of pprof's values the one to show [its default, else the last that is not 0]"
    )


def add_range(parser: argparse.ArgumentParser, start: str, end: str, read: Callable[[str], object] = str) -> None:
    """--from and --to; what each says ends with the default in brackets."""
    parser.add_argument("--from", dest="start", type=read, metavar="T", help=start)
    parser.add_argument("--to", dest="end", type=read, metavar="T", help=end)


def add_kallsyms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kallsyms",
        metavar="FILE",
        help="names of the kernel that perf.data is from: a copy of its /proc/kallsyms [SOURCE.kallsyms, "
        "or this machine's if it is the same boot]",
    )


def complete(parser: argparse.ArgumentParser, **what: str | tuple[str, ...]) -> None:
    """`complete(parser, recording=FILE, finding=("signs", "remedies"))`: by an argument's dest; a room stands for the
    names of its members; FILE and FOLDER for paths. Arguments with choices need none of it."""
    known = {action.dest: action for action in parser._actions}
    for dest, kinds in what.items():
        setattr(known[dest], _KEPT, (kinds,) if isinstance(kinds, str) else kinds)


def completed(action: argparse.Action) -> tuple[str, ...]:
    """What was given to `complete`; nothing for an argument that only its user can know."""
    kept: tuple[str, ...] = getattr(action, _KEPT, ())
    return kept
