"""A store that only takes parcels: `zombiescope fleet serve` on another machine, over HTTP. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from zombiescope.core import UserError, harmless
from zombiescope.fleet.store import Unwanted
from zombiescope.places.http_request import NoAnswer, asked

if TYPE_CHECKING:
    import ssl

TIMEOUT = 30.0  # seconds for one answer
_THERE = (409, 412)  # somebody has created it already
_LATER = (401, 403, 404, 408, 425, 429)  # a token or an address that is wrong can be put right: nothing is given up


class Collector:
    def __init__(self, url: str, token: str = "", context: ssl.SSLContext | None = None) -> None:
        self.url = url.rstrip("/")
        self._parts, self._token, self._context = urlsplit(self.url), token, context

    def create(self, key: str, content: bytes) -> bool:
        status, said = self._asked("PUT", key, content)
        if status in _THERE:
            return False
        if 400 <= status < 500 and status not in _LATER:
            raise Unwanted(f"{self.url}: refused with {status}: {said}")
        if not 200 <= status < 300:
            raise UserError(f"{self.url}: answered {status}: {said}")
        return True

    def has(self, key: str) -> bool:
        status, said = self._asked("HEAD", key)
        if status not in (200, 404):
            raise UserError(f"{self.url}: answered {status}: {said}")
        return status == 200

    def _asked(self, method: str, key: str, content: bytes | None = None) -> tuple[int, str]:
        where = self._parts._replace(path=f"{self._parts.path}/{quote(key, safe='/=')}")
        once = {"If-None-Match": "*"}
        try:
            answer = asked(
                where, method, content, token=self._token, headers=once, context=self._context, timeout=TIMEOUT
            )
        except NoAnswer as error:
            raise UserError(f"{self.url}: {harmless(str(error), most=200)}") from error
        said = answer.content.decode("utf-8", "replace").strip()
        return answer.status, harmless(said.splitlines()[0] if said else answer.reason, most=200)
