"""DIR/agent, what the agent keeps beside its recording: private, and opened before it is asked whose it is."""

from __future__ import annotations

import os

from zombiescope.core import UserError
from zombiescope.core.root_only import private_folder

FOLDER = "agent"


def made(folder: str) -> int:
    """DIR/agent, both made if they are missing. What is in it is believed at the next start, so no folder above may be
    a stranger's."""
    path = os.path.join(folder, FOLDER)
    os.close(private_folder(folder))
    own = private_folder(path)
    if os.fstat(own).st_mode & 0o077:  # it holds a token and a socket: an earlier version let others look into it
        _make_private(path, own)
    return own


def _make_private(path: str, handle: int) -> None:
    try:
        os.fchmod(handle, 0o700)
    except OSError:
        os.close(handle)
        raise UserError(f"{path}: others can look into it: chmod 700, or give another folder") from None
