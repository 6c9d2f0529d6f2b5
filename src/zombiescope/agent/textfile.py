"""/metrics as a file for node_exporter's textfile collector, for nodes where no port may be opened."""

from __future__ import annotations

import os
from contextlib import suppress

NAME = "zombiescope.prom"


def write(folder: str, content: bytes) -> str:
    """Written whole under another name, then renamed. Returns why that failed, else an empty string."""
    path = os.path.join(folder, NAME)
    part = f"{path}.tmp"  # the collector reads only *.prom
    try:
        with suppress(FileNotFoundError):
            os.unlink(part)  # of an agent that was killed; a link is removed, not followed
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with open(handle, "wb") as file:
            os.fchmod(file.fileno(), 0o644)  # node_exporter is another user
            file.write(content)
        os.replace(part, path)
    except OSError as error:
        return f"{path}: {(error.strerror or str(error)).lower()}"
    return ""
