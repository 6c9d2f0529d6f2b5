"""A TLS server that answers as it likes: bytes, slowly or never, for tests of the client. It notes what it was sent."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.kubernetes.authority import Authority

from zombiescope.kubernetes.access import Access, Kept

Act = Callable[[ssl.SSLSocket], None]


class BadServer:
    """`acts` are what it does with its next connections; the last of them for all that follow."""

    def __init__(self, authority: Authority, name: str, *acts: Act) -> None:
        self.got: list[str] = []  # head and body of each request
        self._acts = list(acts)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*authority.certificate(name, alternatives="IP:127.0.0.1"))
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.port = self._listens.getsockname()[1]
        self._ends = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._ends:
            with suppress(OSError):
                raw, _ = self._listens.accept()
                raw.settimeout(10)
                with suppress(OSError), self._context.wrap_socket(raw, server_side=True) as connection:
                    self.got.append(_request(connection))
                    act = self._acts.pop(0) if len(self._acts) > 1 else self._acts[0]
                    act(connection)

    def close(self) -> None:
        self._ends = True
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            pass
        self._thread.join(15)
        self._listens.close()


def _request(connection: ssl.SSLSocket) -> str:
    got = b""
    while b"\r\n\r\n" not in got:
        got += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = got.partition(b"\r\n\r\n")
    length = next((int(it.split(b":")[1]) for it in head.splitlines() if it.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return (head + b"\n\n" + body).decode()


def says(status: int, body: Any, *headers: str) -> Act:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(content)}", "Connection: close", *headers]
    return sends("\r\n".join([*lines, "", ""]).encode() + content)


def sends(content: bytes) -> Act:
    def act(connection: ssl.SSLSocket) -> None:
        with suppress(OSError):
            connection.sendall(content)

    return act


def drips(content: bytes, each: float) -> Act:
    """A byte now and then, for ever."""

    def act(connection: ssl.SSLSocket) -> None:
        with suppress(OSError):
            connection.sendall(content)
            for _ in range(200):
                time.sleep(each)
                connection.sendall(b"x")

    return act


@contextmanager
def bad_server(folder: Path, *acts: Act) -> Iterator[tuple[BadServer, Access]]:
    authority = Authority(folder / "authority")
    server = BadServer(authority, "server", *acts)
    (folder / "token").write_text("first-token\n")
    try:
        yield (
            server,
            Access(
                server=f"https://127.0.0.1:{server.port}",
                ca=Kept(file=str(authority.file)),
                token=Kept(file=str(folder / "token")),
            ),
        )
    finally:
        server.close()
