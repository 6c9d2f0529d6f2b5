"""One HTTP request to an address that was configured: bounded in bytes and time, redirects not followed.

A module of its own, since http.client takes 4 MB with TLS: it is imported only where something is asked or posted.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult

from zombiescope import __version__

if TYPE_CHECKING:
    import ssl


class NoAnswer(Exception):
    """And why."""


class Answer(NamedTuple):
    status: int
    reason: str
    content: bytes  # no more than was asked for


def asked(
    url: SplitResult,
    method: str = "GET",
    body: bytes | None = None,
    *,
    token: str = "",
    headers: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
    timeout: float = 10.0,
    most: int = 4096,
) -> Answer:
    """`most`: bytes that are read of the answer."""
    where = (url.hostname or "", url.port)
    if url.scheme == "https":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(*where, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(*where, timeout=timeout)
    known = {"User-Agent": f"zombiescope/{__version__}"} | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request(method, path, body, known | dict(headers or {}))
        answer = connection.getresponse()
        return Answer(answer.status, answer.reason, answer.read(most))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer(str(error) or type(error).__name__) from error
    finally:
        with suppress(OSError):
            connection.close()
