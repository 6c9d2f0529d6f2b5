"""DIR/agent/socket: where the agent answers root and its own user without a token, and nobody else.

Both ends ask the kernel whose process the other one is (SO_PEERCRED) before they send or believe anything. The folder
is reached by its handle, as the name of a socket may have 107 bytes only.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from contextlib import suppress

from zombiescope.agent.folder import FOLDER

NAME = "socket"
_PEER = struct.Struct("iII")  # struct ucred: pid, uid, gid
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


def listening(folder: int, waiting: int) -> socket.socket:
    """In the agent's own folder, whose lock it holds: a socket that is there is of an agent that has ended."""
    remove(folder)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        door.bind(_address(folder))
        os.chmod(NAME, 0o600, dir_fd=folder)
        door.listen(waiting)
    except OSError:
        door.close()
        raise
    return door


def remove(folder: int) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(NAME, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(NAME, dir_fd=folder)


def connected(folder: str, patience: float) -> socket.socket:
    """To the agent that records into this folder. OSError: none answers there, or it is not one to believe."""
    own = os.open(os.path.join(folder, FOLDER), _FOLDER)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        door.settimeout(patience)
        door.connect(_address(own))
        if not known(door):
            raise OSError(f"what answers belongs to uid {_uid(door)}, neither root nor this user")
    except OSError:
        door.close()
        raise
    finally:
        os.close(own)
    return door


def known(end: socket.socket) -> bool:
    """Whether the other end is a process of root, or of our own user."""
    return _uid(end) in (0, os.geteuid())


def _uid(end: socket.socket) -> int:
    return int(_PEER.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1])


def _address(folder: int) -> str:
    return f"/proc/self/fd/{folder}/{NAME}"
