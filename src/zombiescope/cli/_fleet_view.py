"""`fleet view`: the fleet's page, served on this machine until Ctrl-C."""

from __future__ import annotations

import argparse
import re
import sys

from zombiescope.cli._arguments import FOLDER, complete
from zombiescope.cli._page_server import add_serving, ready, serve_page
from zombiescope.core import harmless

_NODE = "{node}"


def add_view(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="STORE", nargs="?", help="the same as --store")
    parser.add_argument(
        "--agents",
        type=_template,
        metavar="URL",
        help="where each node's own page is, such as https://{node}:9479/page/ [none: the command to type is shown]",
    )
    add_serving(parser)
    complete(parser, place=FOLDER)


def view(args: argparse.Namespace) -> int:
    ready("fleet")
    from zombiescope.fleet import reading, store
    from zombiescope.web.fleet_answers import Answers
    from zombiescope.web.server import files_of, guarded

    def opened() -> reading.Fleet:
        return reading.opened(store.opened(args.store), args.hours, args.start, args.end)

    label = harmless(args.store, most=80)
    answers = Answers(opened, label, args.price, args.agents or "")
    print(answers.says, file=sys.stderr)
    files = files_of("fleet", f"{label} – zombiescope fleet")
    return serve_page(args, lambda token, came: guarded(files, token, came, answers))


def _template(text: str) -> str:
    """Only the user of this command chooses where links lead; a node gives no more than its name."""
    if _NODE not in text or not re.fullmatch(r"https?://[!-~]{1,300}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address with {_NODE} in it: https://{_NODE}:9479/page/")
    return text
