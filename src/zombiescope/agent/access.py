"""Who may read what: each request that comes by a port is judged before it is answered.

By the agent's own socket come root and its own user alone: they may read everything (agent/local_socket.py).
"""

from __future__ import annotations

import base64
import hmac
import os
import secrets
from contextlib import suppress

from zombiescope.agent.folder import FOLDER, made
from zombiescope.agent.output import Output
from zombiescope.agent.own_token import NAME, RANDOM, own_token
from zombiescope.agent.serving import Request, Response
from zombiescope.agent.settings import LOOPBACK, Settings, token

OPEN = ("/metrics", "/healthz")  # for anybody on this machine; and all that metrics-listen serves
METRICS, SOCKET = "metrics", "socket"  # places that a request comes in by; the other one is `listen`
_ASKS = (("WWW-Authenticate", 'Basic realm="zombiescope", charset="UTF-8"'), ("WWW-Authenticate", "Bearer"))


class Access:
    """`folder`: DIR/agent, open; `path`: its name."""

    def __init__(self, settings: Settings, out: Output) -> None:
        self.folder, self.path = made(settings.dir), os.path.join(settings.dir, FOLDER)
        self._out, self._told = out, ""
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Also after a reload. UserError: a token cannot be used, and nothing has changed."""
        self._secret, self._settings = self._secret_of(settings), settings

    def tell(self) -> None:
        """Where the token is, if that is news. Never the token itself: a log has more readers than a node."""
        says = ""
        if self._settings.token_file:
            says = f"clients of listen need the token in {self._settings.token_file}"
        elif self._secret:
            says = f"anybody here may read /metrics and /healthz; the rest needs the token in {self.path}/{NAME}"
        elif self._settings.listen and self._settings.open_loopback == "on":
            says = "open-loopback: every user and every hostNetwork pod of this machine may read everything"
        if says not in ("", self._told):
            self._out.log(says)
        self._told = says

    def refused(self, request: Request) -> Response | None:
        """Why it is not answered; None if it may be."""
        if request.place == SOCKET:
            return None
        if request.place == METRICS:
            return None if request.path in OPEN else Response(404, b"only /metrics and /healthz\n")
        given = _given(request.headers.get("authorization", ""))
        if self._secret and hmac.compare_digest(given, self._secret.encode()):
            return None
        if self._secret and (self._settings.token_file or request.path not in OPEN):
            return Response(
                401, b"a token is needed, as bearer or as password: the agent's log says where\n", headers=_ASKS
            )
        if not self._settings.tls_client_ca_file and not _local(request.headers.get("host", "")):
            # A page in a browser could have its own name resolve to 127.0.0.1 and read us.
            return Response(403, b"this address is for 127.0.0.1 and localhost only\n")
        return None

    def _secret_of(self, settings: Settings) -> str:
        """Empty: none is needed, as the address is open by wish or its clients are known by a certificate."""
        if settings.token_file:
            return token(settings.token_file, "token-file")
        if not settings.listen or settings.open_loopback == "on" or settings.tls_client_ca_file:
            return ""
        try:
            return own_token(self.folder, self.path)
        except OSError as error:  # a full disk: the socket answers, the port's pages are for nobody
            self._out.log(f"{self.path}/{NAME}: a token could not be made: {error.strerror or error}", "error")
            return secrets.token_urlsafe(RANDOM)


def _given(header: str) -> bytes:
    """The word that a client gives: a bearer token, or the password of any user, as browsers and Go's tool send it."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "bearer":
        return rest.encode("utf-8", "replace")
    if scheme.lower() == "basic":
        with suppress(ValueError):
            return base64.b64decode(rest, validate=True).partition(b":")[2]
    return b""


def _local(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
    return name in (*LOOPBACK, "")
