"""The agent's own token: made at its first start, in its own folder, for its own user alone."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

from zombiescope.agent.settings import secret

NAME, PART = "token", "token.part"
RANDOM = 32  # bytes
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def own_token(folder: int, path: str) -> str:
    """What the file holds; made if there is none. UserError: what is there is no token. OSError: none can be made."""
    try:
        handle = os.open(NAME, os.O_RDONLY | _FILE, dir_fd=folder)
    except FileNotFoundError:
        return _made(folder)
    try:
        return secret(handle, f"{path}/{NAME}")
    finally:
        os.close(handle)


def _made(folder: int) -> str:
    """Whole on the disk before it has its name: a crash leaves no empty token behind."""
    word = secrets.token_urlsafe(RANDOM)
    with suppress(FileNotFoundError):
        os.unlink(PART, dir_fd=folder)
    handle = os.open(PART, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=folder)
    try:
        os.write(handle, word.encode() + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(PART, NAME, src_dir_fd=folder, dst_dir_fd=folder)
    return word
