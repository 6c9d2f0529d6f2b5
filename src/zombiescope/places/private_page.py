"""A browser's way to an address that nobody else on this machine may see: everybody can read its command line."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

NAME = "open.html"


def private_page(url: str) -> TemporaryDirectory[str]:
    """A folder with a page, NAME, that only this user can read and that leads to `url`; for the caller to remove."""
    # The folder has mode 0700. A cleanup after the first one finds nothing, which is fine.
    folder = TemporaryDirectory(prefix="zombiescope-view-", ignore_cleanup_errors=True)
    way = (
        f'<!doctype html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={url}">'
    )
    with open(os.open(f"{folder.name}/{NAME}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as page:
        page.write(f"{way}\n")
    return folder
