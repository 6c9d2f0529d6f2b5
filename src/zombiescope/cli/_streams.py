"""Where a verb's words go: `-o FILE` in place of stdout, `--quiet` for nothing on stderr but errors."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """To a verb, or to each of what it is divided into."""
    divided = [it for it in parser._actions if isinstance(it, argparse._SubParsersAction)]
    for each in divided:
        for part in each.choices.values():
            add_quiet(part)
    known = parser._option_string_actions
    if not divided and "-q" not in known and "--quiet" not in known:
        says = "print no progress and no notes on stderr, only errors"
        parser.add_argument("-q", "--quiet", action="store_true", help=says)


@contextmanager
def streams_of(args: argparse.Namespace) -> Iterator[None]:
    """While a verb runs, stdout and stderr are what its options ask for. A file appears only when it is complete."""
    output, quiet = getattr(args, "output", None), getattr(args, "quiet", False)
    if not output and not quiet:
        yield
        return
    import io
    from contextlib import ExitStack, redirect_stderr, redirect_stdout

    from zombiescope.cli._whole_file import whole_file

    with ExitStack() as doors:
        if quiet:
            doors.enter_context(redirect_stderr(doors.enter_context(open(os.devnull, "w"))))
        if output:
            file = doors.enter_context(whole_file(output))
            text = io.TextIOWrapper(file, "utf-8", errors="backslashreplace", write_through=True)
            doors.enter_context(redirect_stdout(doors.enter_context(text)))
        yield
