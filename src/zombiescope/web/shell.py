"""What server, file and agent share of the page: its built files, an empty page that the script fills, its headers.

Standard library only: the agent serves it, and has no numpy.
"""

from __future__ import annotations

import html
from importlib import resources

from zombiescope import __version__
from zombiescope.core import UserError, harmless

FOLDER = "static"  # what page/ is built into
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def built(name: str) -> bytes:
    """A file of the page. It is written in TypeScript and built once; the package contains it."""
    try:
        return resources.files("zombiescope.web").joinpath(FOLDER, name).read_bytes()
    except FileNotFoundError:
        raise UserError("the page is not built: run `make page`, which needs Node") from None


def shell(title: str, head: str, tail: str = "") -> str:
    """An empty page that the script fills."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="zombiescope {__version__}">
<link rel="icon" href="data:,">
{head}<title>{html.escape(harmless(title))}</title>
</head>
<body>
<div id="page"><p class="loading">reading …</p></div>
{tail}</body>
</html>
"""
