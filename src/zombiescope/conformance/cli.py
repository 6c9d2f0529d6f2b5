"""A verb: it has examples, and its arguments can be added."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from types import ModuleType

from zombiescope.conformance._complaint import Complaint, parameters


def check(name: str, verb: ModuleType) -> Iterator[Complaint]:
    yield from parameters(verb, "add_args", ["parser"])
    yield from parameters(verb, "run", ["args"])
    begin = f"examples:\n  zombiescope {name}"
    if not verb.EXAMPLES.startswith(begin):
        yield Complaint(says="EXAMPLES shows no example first", mend=f"begin it with {begin!r}", about="EXAMPLES")
    parser = argparse.ArgumentParser(prog=f"zombiescope {name}")
    verb.add_args(parser)
    parser.format_help()
