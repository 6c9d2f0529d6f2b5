"""The files of the time-travel page, as the agent serves them: read once, at its start, and kept packed."""

from __future__ import annotations

import gzip

from zombiescope.agent.serving import Response
from zombiescope.core import UserError
from zombiescope.web.shell import HEADERS, built, shell

BUNDLE = "application/vnd.zombiescope.bundle"
EVERY = 15  # seconds after which the page asks for the last minutes again
_HEADERS = tuple(
    (name, text) for name, text in HEADERS.items() if name not in ("X-Content-Type-Options", "Cache-Control")
)


class LivePage:
    """What does not change: page, script and style."""

    def __init__(self, node: str) -> None:
        head = (
            f'<meta name="zombiescope-live" content="{EVERY}">\n'
            '<link rel="stylesheet" href="page.css">\n<script src="page.js" defer></script>\n'
        )
        self.missing = ""
        self._files: dict[str, tuple[str, bytes]] = {}
        try:
            files = {
                "": ("text/html; charset=utf-8", shell(f"{node} – zombiescope", head).encode()),
                "page.js": ("text/javascript; charset=utf-8", built("page.js")),
                "page.css": ("text/css; charset=utf-8", built("page.css")),
            }
        except UserError as error:
            self.missing = str(error)
            return
        self._files = {name: (kind, gzip.compress(body, 6, mtime=0)) for name, (kind, body) in files.items()}

    def file(self, name: str) -> Response:
        if self.missing:
            return Response(503, f"{self.missing}\n".encode())
        found = self._files.get(name)
        if found is None:
            return Response(404, b"no such part of the page\n")
        return Response(200, found[1], found[0], (("Content-Encoding", "gzip"), *_HEADERS))
