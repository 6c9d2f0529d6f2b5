"""Requests to an API server, one connection each: bounded in bytes and time, redirects not followed.

A node's agent asks about once in minutes, so a connection kept open would only cost the server memory. Files of the
access are read for each request, so a new token or certificate is used at once.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from zombiescope import __version__
from zombiescope.core import Unreadable, harmless
from zombiescope.kubernetes.access import Access, address

TIMEOUT = 15.0  # seconds for one request, from the first packet to the last byte of the answer
MOST = 4 << 20  # bytes of an answer: a node with a thousand images has 500 KB
MOST_LIST = 64 << 20  # bytes of a list: 110 pods of a node have 2 MB, a thousand nodes 20 MB
MOST_PAUSE = 300.0  # seconds that a server may ask us to wait
MOST_WORDS = 200  # characters of a server's message
STRATEGIC, MERGE, JSON = "application/strategic-merge-patch+json", "application/merge-patch+json", "application/json"


class Refused(Exception):
    """The request failed: `status` is HTTP's, 0 if there was no answer; `pause` what the server asks for."""

    def __init__(self, says: str, status: int = 0, reason: str = "", pause: float = 0.0) -> None:
        super().__init__(says)
        self.status, self.reason, self.pause = status, reason, pause

    @property
    def later(self) -> bool:
        """Whether the same request may succeed later: nobody answered, too much to do, a conflict, a server's fault."""
        conflict = self.status == 409 and self.reason != "AlreadyExists"
        return conflict or self.status in (0, 408, 429) or self.status >= 500

    @property
    def denied(self) -> bool:
        """A token that was replaced, or rights that were taken away: both may come back."""
        return self.status in (401, 403)


class Answer(NamedTuple):
    body: dict[str, Any]
    date: float  # the server's clock, 0 if it did not say


class Client:
    """One server. `requests` counts what was sent, for those who watch how much we ask."""

    def __init__(self, access: Access, timeout: float = TIMEOUT) -> None:
        self._access, self._timeout = access, timeout
        self.requests = 0

    def get(self, path: str, most: int = MOST) -> Answer:
        return self.request("GET", path, most=most)

    def create(self, path: str, body: Mapping[str, Any]) -> Answer:
        return self.request("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any], kind: str = STRATEGIC) -> Answer:
        """Strategic merge by default: lists of conditions are merged by type. A JSON merge would replace them all."""
        return self.request("PATCH", path, body, kind)

    def delete(self, path: str) -> Answer:
        return self.request("DELETE", path)

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, kind: str = JSON, most: int = MOST
    ) -> Answer:
        """What the server answers with 2xx; anything else is Refused, in one line that is safe to print."""
        host, port, prefix = address(self._access.server)
        headers = {"Accept": JSON, "User-Agent": f"zombiescope/{__version__}"}
        content = None
        if body is not None:
            content = json.dumps(body, allow_nan=False).encode()
            headers["Content-Type"] = kind
        try:
            if bearer := self._access.bearer():
                headers["Authorization"] = f"Bearer {bearer}"
            context = self._access.context()
        except Unreadable as error:
            raise Refused(f"{host}: {error}") from None
        connection = _Connection(host, port, self._access.server_name, context, self._timeout)
        self.requests += 1
        try:
            with _limited(connection, self._timeout):
                connection.request(method, prefix + path, content, headers)
                answer = connection.getresponse()
                raw = answer.read(most + 1)
                if answer.length and len(raw) <= most:  # bytes that were promised and did not come
                    raise http.client.IncompleteRead(b"", answer.length)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Refused(harmless(f"{host}:{port}: {_why(error)}", most=MOST_WORDS)) from None
        finally:
            with suppress(OSError):
                connection.close()
                if connection.open is not None:
                    connection.open.close()
        if len(raw) > most:
            raise Refused(f"{host}:{port}: an answer of more than {most >> 20} MB to {method} {path}", 0, "TooLarge")
        return self._understood(method, path, answer, raw)

    def _understood(self, method: str, path: str, answer: http.client.HTTPResponse, raw: bytes) -> Answer:
        try:
            told = json.loads(raw)
        except (ValueError, RecursionError):
            told = None
        if 200 <= answer.status < 300 and isinstance(told, dict):
            return Answer(told, _date(answer.headers.get("Date", "")))
        said = told if isinstance(told, dict) else {}
        words = said.get("message") or answer.reason or ""
        if 200 <= answer.status < 300:
            words = "the answer is not a JSON object"
        raise Refused(
            harmless(f"HTTP {answer.status} to {method} {path}: {words}", most=MOST_WORDS),
            answer.status if answer.status >= 300 else 0,
            harmless(str(said.get("reason") or ""), most=60),
            _pause(answer.headers.get("Retry-After", "")),
        )


class _Connection(http.client.HTTPSConnection):
    """The certificate may be asked to be for another name than the address."""

    def __init__(self, host: str, port: int, name: str, context: ssl.SSLContext, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._name, self._tls = name or host, context
        # What the deadline ends: also in the middle of the handshake, and after http.client gave `sock` to the answer.
        self.open: socket.socket | None = None

    def connect(self) -> None:
        self.open = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = self._tls.wrap_socket(self.open, server_hostname=self._name, do_handshake_on_connect=False)
        self.open = self.sock
        self.sock.do_handshake()


@contextmanager
def _limited(connection: _Connection, seconds: float) -> Iterator[None]:
    """A server that sends a byte now and then resets every timeout of the socket: this one ends the whole."""
    over = threading.Event()

    def end() -> None:
        over.set()
        if connection.open is not None:
            with suppress(OSError):
                # The plain socket's: shutdown of a TLS socket would forget the key that a read still needs.
                socket.socket.shutdown(connection.open, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:  # a node that is out of threads
        raise OSError("no thread for the deadline could be started") from None
    try:
        yield
        if over.is_set():
            raise TimeoutError(f"no whole answer in {seconds:g} s")
    except (OSError, http.client.HTTPException, ValueError):
        if over.is_set():
            raise TimeoutError(f"no whole answer in {seconds:g} s") from None
        raise
    finally:
        timer.cancel()


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, http.client.RemoteDisconnected):
        return "not an answer in HTTP"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def _pause(text: str) -> float:
    return min(float(text), MOST_PAUSE) if text.isascii() and text.isdecimal() and len(text) < 10 else 0.0


def _date(text: str) -> float:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0
