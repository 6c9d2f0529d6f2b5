"""How a page is served: where, under which address, and how a browser gets to it. `view` and `fleet view` share it."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Callable
from typing import Any

from zombiescope.places.private_page import NAME, private_page

TOKEN = 24  # bytes of randomness in the address
_LOCAL = ("127.0.0.1", "::1", "localhost")


def add_serving(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--open", action="store_true", help="open it in a browser")
    parser.add_argument("--port", type=_port, default=0, metavar="P", help="port to serve on [any free one]")
    parser.add_argument("--listen", default="127.0.0.1", metavar="HOST", help="address to serve on [127.0.0.1]")


def ready(page: str, *, serving: bool = True) -> None:
    """Check that the page and the server are installed before reading the source, which may take a while."""
    from zombiescope.web.server import installed
    from zombiescope.web.shell import built

    built(f"{page}.js")
    if serving:
        installed()


def serve_page(args: argparse.Namespace, made: Callable[[str, Callable[[], None]], Any]) -> int:
    """Until Ctrl-C. `made`: the application of a token; it calls the other when somebody has come."""
    from zombiescope.web.server import address, listening, serve

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C
    door = listening(args.listen, args.port)
    token = secrets.token_urlsafe(TOKEN)
    url = address(door, token)
    way = private_page(url) if args.open else None
    app = made(token, way.cleanup if way else lambda: None)
    if args.listen not in _LOCAL:
        print(f"anyone who can reach {args.listen} and has this address can read the page", file=sys.stderr)
    print(url, flush=True)
    print("serving until Ctrl-C", file=sys.stderr)
    try:
        if way is not None:
            import webbrowser

            webbrowser.open(f"file://{way.name}/{NAME}")
        serve(app, door)
    finally:
        if way is not None:
            way.cleanup()
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text[:9]) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)
