"""Resolve a path in a root that is not our own, as a process that is chrooted there would.

A link that is absolute (`/etc/systemd/system/x.service -> /usr/lib/systemd/system/x.service`) begins at that root, and
`..` stays at it, so nothing in the root leads to a file of ours.
"""

from __future__ import annotations

import errno
import os

MOST_LINKS = 40  # as the kernel follows (MAXSYMLINKS in include/linux/namei.h)


def resolved(root: str, path: str, *, follow: bool = True) -> tuple[str, bool]:
    """Where the path is, with every link resolved, the last only if `follow`; and whether it pointed out of the root.

    Raises OSError for a loop of links. The place need not exist.
    """
    here: list[str] = []
    ahead = path.split("/")[::-1]
    links, out = 0, False
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            out = out or not here
            here = here[:-1]
            continue
        here.append(part)
        if not follow and not any(ahead):
            continue
        try:
            target = os.readlink("/".join((root.rstrip("/"), *here)))
        except OSError:  # not a link, or not there
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        out = out or target.startswith("/")
        here = [] if target.startswith("/") else here[:-1]
        ahead += target.split("/")[::-1]
    return "/".join((root.rstrip("/"), *here)) or "/", out
