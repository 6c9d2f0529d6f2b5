"""A client's socket, plain or with TLS. It never waits: BlockingIOError says that there is nothing to do now."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

PIECE = 16384  # bytes at once: a whole record of TLS, so that nothing stays behind that no selector knows of


class Connection:
    """As it was accepted."""

    def __init__(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        self.socket = accepted

    def receive(self) -> bytes:
        """Empty at its end."""
        return self.socket.recv(PIECE)

    def send(self, content: memoryview) -> int:
        return self.socket.send(content)

    def finish(self) -> None:
        """Nothing more is sent."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()


class Secure(Connection):
    """With TLS: the handshake comes with the first bytes. One that begins another handshake is hung up on."""

    def __init__(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        accepted.setblocking(False)
        self._it = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        super().__init__(self._it)
        self._greeted = False

    def receive(self) -> bytes:
        import ssl

        try:
            if not self._greeted:
                self._it.do_handshake()
                self._greeted = True
            return self._it.recv(PIECE)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None

    def send(self, content: memoryview) -> int:
        import ssl

        try:
            return self._it.send(content)
        except ssl.SSLWantWriteError:
            raise BlockingIOError from None

    def finish(self) -> None:
        with suppress(OSError, ValueError):  # it waits for the other's farewell, we do not
            self._it.unwrap()
        super().finish()
