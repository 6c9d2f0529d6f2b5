"""What a shell can complete for an argument: a path, or the names of members. Verbs say it in `add_args`."""

from __future__ import annotations

import argparse

FILE, FOLDER = "file", "folder"  # a file or a folder; a folder only
_KEPT = "completes"


def complete(parser: argparse.ArgumentParser, **what: str | tuple[str, ...]) -> None:
    """`complete(parser, recording=FILE, finding=("signs", "remedies"))`: by an argument's dest; a room stands for the
    names of its members. Arguments with choices need none of it."""
    known = {action.dest: action for action in parser._actions}
    for dest, kinds in what.items():
        setattr(known[dest], _KEPT, (kinds,) if isinstance(kinds, str) else kinds)


def completed(action: argparse.Action) -> tuple[str, ...]:
    """What was given to `complete`; nothing for an argument that only its user can know."""
    kept: tuple[str, ...] = getattr(action, _KEPT, ())
    return kept
