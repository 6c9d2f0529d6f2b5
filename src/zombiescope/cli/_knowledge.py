"""What verbs that use knowledge share: --knowledge DIR, for facts about agents, units and messages of one's own."""

from __future__ import annotations

import argparse
import os

from zombiescope.cli._arguments import FOLDER, add_repeatable, complete
from zombiescope.core import UserError, harmless


def add_knowledge(parser: argparse.ArgumentParser) -> None:
    says = "read the .toml files there too: agents, units, messages of your own; repeatable"
    add_repeatable(parser, "--knowledge", "DIR", says)
    complete(parser, knowledge=FOLDER)


def use_knowledge(args: argparse.Namespace) -> None:
    """Before anything is asked of the knowledge."""
    if not args.knowledge:
        return
    from zombiescope.knowledge.tables import use_folder

    for folder in args.knowledge:
        if not os.path.isdir(folder):
            raise UserError(f"--knowledge {harmless(folder)}: no such folder")
        use_folder(folder)
