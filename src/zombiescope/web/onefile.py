"""The page and its data as one file that opens from disk: for a ticket, a mail, a laptop without zombiescope.

The browser may run only this script and use only this style, identified by their hashes, and fetch nothing.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
from importlib import resources
from typing import IO

from zombiescope import __version__
from zombiescope.core import UserError, harmless
from zombiescope.web.payload import Source, bundle_of

FOLDER = "static"  # what page/ is built into
LEVEL = 6  # of compression: 9 takes three times as long for 1 % less


def built(name: str) -> bytes:
    """A file of the page. It is written in TypeScript and built once; the package contains it."""
    try:
        return resources.files("zombiescope.web").joinpath(FOLDER, name).read_bytes()
    except FileNotFoundError:
        raise UserError("the page is not built: run `make page`, which needs Node") from None


def shell(title: str, head: str, tail: str = "") -> str:
    """What server and file share: an empty page that the script fills."""
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


def write(source: Source, out: IO[bytes]) -> None:
    out.write(one_file(bundle_of(source), title_of(source)))


def title_of(source: Source) -> str:
    return f"{harmless(source.label, most=60)} – zombiescope"


def one_file(bundle: bytes, title: str) -> bytes:
    script, style = built("page.js").decode(), built("page.css").decode()
    for text, end in ((script, "</script"), (style, "</style")):
        if end in text.lower():
            raise ValueError(f"the built page has {end} in it, which would end it")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    # No time in it: the same source gives the same file.
    data = base64.b64encode(gzip.compress(bundle, LEVEL, mtime=0)).decode()
    tail = f'<script type="application/gzip" id="bundle">{data}</script>\n<script>{script}</script>\n'
    return shell(title, head, tail).encode()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
