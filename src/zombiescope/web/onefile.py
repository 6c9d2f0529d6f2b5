"""The page and its data as one file that opens from disk: for a ticket, a mail, a laptop without zombiescope.

The browser may run only this script and use only this style, identified by their hashes, and fetch nothing.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from typing import IO

from zombiescope.core import harmless
from zombiescope.web.payload import Source, bundle_of
from zombiescope.web.shell import built, shell

LEVEL = 6  # of compression: 9 takes three times as long for 1 % less


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
