"""A small HTTP server for reading: one request a connection, bounded in size, time and number of connections.

It never waits for a client: all sockets are in the agent's one loop. When all places are taken, the address that has
most of them gives up the one that has been idle the longest: slow and busy clients cannot keep a scraper out.
"""

from __future__ import annotations

import re
import selectors
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from zombiescope.agent.connection import Connection
from zombiescope.agent.listeners import Listeners

PLACES = 64  # connections at once: a scraper needs one
MOST_HEAD = 8192  # bytes of a request
PATIENCE = 5.0  # seconds for a client to send its request
TAKING = 15.0  # seconds for it to take the answer
WAITS = 90.0  # seconds for an answer that is being worked out
MOST_HELD = 24 << 20  # bytes of answers that clients have not taken yet: more large ones have to wait
LARGE = 64 << 10  # bytes
LINGER = 1.0  # seconds to read what else it sends: closing at once would destroy an answer that is under way
PIECE = 64 << 10  # bytes sent at once
_LINE = re.compile(rb"([A-Z]{1,16}) ([\x21-\x7e]{1,4096}) HTTP/1\.[01]")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
STATUS = {
    200: "OK",
    307: "Temporary Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Request:
    path: str  # without its query
    query: str
    headers: Mapping[str, str]  # names in lower case
    place: str  # which listener it came in by


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes
    kind: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class Later:
    """An answer that is not known yet: those who wait for it hear it once it is."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[Response], None]] = []

    def then(self, hear: Callable[[Response], None]) -> None:
        self._waiting.append(hear)

    def known(self, response: Response) -> None:
        waiting, self._waiting = self._waiting, []
        for hear in waiting:
            hear(response)


Answer = Callable[[Request], Response | Later]


@dataclass(slots=True, eq=False)
class _Client:
    connection: Connection
    place: str
    peer: str  # whose address it has
    deadline: float
    arrived: bytearray = field(default_factory=bytearray)
    left: memoryview | None = None  # of the answer
    size: int = 0  # bytes of the whole answer
    lingers: bool = False
    waits: bool = False  # for an answer that is worked out


class Server:
    """All listeners and clients, in a selector that belongs to the caller; call `tick` now and then."""

    def __init__(self, selector: selectors.BaseSelector, answer: Answer) -> None:
        self._selector, self._answer = selector, answer
        self.listeners = Listeners(selector, self._arrived)
        self._clients: dict[_Client, None] = {}  # the longest idle first

    def close(self) -> None:
        """Every listener and every client."""
        self.listeners.close()
        for client in list(self._clients):
            self._drop(client)

    def tick(self, now: float) -> float:
        """Drop clients that are late; seconds until the next one is."""
        for client in [it for it in self._clients if it.deadline <= now]:
            if client.waits:
                self._reply(client, Response(503, b"the answer took too long\n"))
            elif client.left is None and not client.lingers and client.arrived:
                self._reply(client, Response(408, b"the request did not arrive in time\n"))
                client.deadline = now + LINGER
            else:
                self._drop(client)
        rests = self.listeners.tick(now)
        return min([rests, *(it.deadline - now for it in self._clients)])

    def _arrived(self, place: str, peer: str, connection: Connection) -> None:
        if len(self._clients) >= PLACES:
            self._drop(self._least_missed())
        client = _Client(connection, place, peer, time.monotonic() + PATIENCE)
        try:
            self._selector.register(connection.socket, selectors.EVENT_READ, lambda mask: self._serve(client, mask))
        except OSError:  # no memory, or no room among what a user may watch
            connection.close()
            return
        self._clients[client] = None

    def _least_missed(self) -> _Client:
        """Of the address that has most connections, the one that has been idle the longest."""
        peer, _ = Counter(it.peer for it in self._clients).most_common(1)[0]
        return next(it for it in self._clients if it.peer == peer)

    def _serve(self, client: _Client, mask: int) -> None:
        if client not in self._clients:  # dropped in this very round
            return
        try:
            if mask & selectors.EVENT_WRITE and client.left is not None:
                self._send(client)
            elif mask & selectors.EVENT_READ:
                self._receive(client)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._drop(client)

    def _receive(self, client: _Client) -> None:
        piece = client.connection.receive()
        if not piece:
            self._drop(client)
        elif not client.lingers and not client.waits:
            client.arrived += piece
            self._understand(client)

    def _understand(self, client: _Client) -> None:
        head, ended, _ = bytes(client.arrived[:MOST_HEAD]).partition(b"\r\n\r\n")
        if not client.arrived[:1].isupper():  # not HTTP: a TLS hello, say, which has no lines to wait for
            self._reply(client, Response(400, b"not a request\n"))
        elif ended:
            self._answer_to(client, self._answered(head, client.place), bodyless=head.startswith(b"HEAD "))
        elif len(client.arrived) >= MOST_HEAD:
            self._reply(client, Response(431, b"the request is too long\n"))

    def _answer_to(self, client: _Client, answer: Response | Later, *, bodyless: bool) -> None:
        if isinstance(answer, Response):
            self._reply(client, answer, bodyless=bodyless)
            return
        client.waits, client.deadline = True, time.monotonic() + WAITS
        client.arrived.clear()

        def hear(response: Response) -> None:
            if client.waits and client in self._clients:  # else it has gone
                try:
                    self._reply(client, response, bodyless=bodyless)
                except OSError:
                    self._drop(client)

        answer.then(hear)

    def _answered(self, head: bytes, place: str) -> Response | Later:
        first, *rest = head.split(b"\r\n")
        line = _LINE.fullmatch(first)
        if line is None:
            return Response(400, b"not a request\n")
        headers: dict[str, str] = {}
        for one in rest:
            name, colon, value = one.partition(b":")
            key = name.lower().decode("latin-1")
            if not colon or not _NAME.fullmatch(name) or (key == "host" and key in headers):
                return Response(400, b"not a header\n")
            headers[key] = value.strip().decode("latin-1")
        if line[1] not in (b"GET", b"HEAD"):
            return Response(405, b"only GET and HEAD\n", headers=(("Allow", "GET, HEAD"),))
        path, _, query = line[2].decode("ascii").partition("?")
        return self._answer(Request(path, query, headers, place))

    def _reply(self, client: _Client, response: Response, *, bodyless: bool = False) -> None:
        client.waits = False
        if len(response.body) > LARGE and self._held() + len(response.body) > MOST_HELD:
            response = Response(503, b"too many large answers are being sent\n", headers=(("Retry-After", "5"),))
        lines = [
            f"HTTP/1.1 {response.status} {STATUS[response.status]}",
            f"Content-Type: {response.kind}",
            f"Content-Length: {len(response.body)}",
            "Connection: close",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            *(f"{name}: {value}" for name, value in response.headers),
        ]
        head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
        client.left = memoryview(head if bodyless else head + response.body)
        client.size = len(client.left)
        client.deadline = time.monotonic() + TAKING
        client.arrived.clear()
        self._clients[client] = self._clients.pop(client)  # it was busy just now
        self._selector.modify(client.connection.socket, selectors.EVENT_WRITE, lambda mask: self._serve(client, mask))
        self._send(client)

    def _held(self) -> int:
        return sum(it.size for it in self._clients if it.left is not None)

    def _send(self, client: _Client) -> None:
        assert client.left is not None
        with suppress(BlockingIOError, InterruptedError):
            while len(client.left):
                client.left = client.left[client.connection.send(client.left[:PIECE]) :]
        if not len(client.left):
            client.left, client.lingers = None, True
            client.deadline = time.monotonic() + LINGER
            client.connection.finish()
            self._selector.modify(
                client.connection.socket, selectors.EVENT_READ, lambda mask: self._serve(client, mask)
            )

    def _drop(self, client: _Client) -> None:
        if client in self._clients:
            del self._clients[client]
            self._selector.unregister(client.connection.socket)
            client.connection.close()
