"""A server for a test: it answers as its handler says, on a port of its own, until the test ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The server's address and port. It prints nothing."""
    silent = type("Silent", (handler,), {"log_message": lambda *_: None})
    with HTTPServer(("127.0.0.1", 0), silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
