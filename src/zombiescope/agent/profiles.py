"""Profiles to servers of others: a poster for each, and what was asked for and taken. Standard library only.

Bodies come from the looks (agent/pushing.py). A server that does not answer costs 4 MB at most and holds up nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from zombiescope.agent.output import Output
from zombiescope.agent.posting import JSON, Poster
from zombiescope.agent.settings import Settings, token
from zombiescope.agent.tls import POSTED_WITH, for_servers

PROTO = {"Content-Encoding": "gzip"}
# By setting: the path below its address, and what is sent with it.
TARGETS: dict[str, tuple[str, Mapping[str, str]]] = {
    "pyroscope": ("/push.v1.PusherService/Push", PROTO | {"Content-Type": "application/proto"}),
    "parca": ("/api/profiles/writeraw", JSON),
    "otlp": ("/v1development/profiles", PROTO | {"Content-Type": "application/x-protobuf"}),
}
SETTINGS = (*TARGETS, "push_token_file", "push_tenant", *POSTED_WITH)  # that decide where profiles go, and how
MOST_BYTES = 4 << 20  # that wait for one server; the oldest is given up first, and counted
OLDEST = 3000.0  # seconds: Pyroscope refuses what is older than an hour


class Profiles:
    """All targets. `since`: what the next look has to send begins there."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._posters: dict[str, Poster] = {}
        self._since = 0.0
        self.sent: dict[str, int] = {}
        self.bytes: dict[str, int] = {}

    def connect(self, settings: Settings) -> None:
        secret = token(settings.push_token_file, "push-token-file") if settings.push_token_file else ""
        self._since = time.time() - settings.every
        certificates = for_servers(settings, *(getattr(settings, it) for it in TARGETS))
        for name, (path, headers) in TARGETS.items():
            url = getattr(settings, name).rstrip("/")
            if url:
                tenant = {"X-Scope-OrgID": settings.push_tenant} if settings.push_tenant else {}
                address = url if url.endswith(path) else url + path
                self._posters[name] = Poster(
                    address,
                    secret,
                    headers={**headers, **tenant},
                    most=MOST_BYTES,
                    oldest=OLDEST,
                    certificates=certificates,
                )

    def disconnect(self, patience: float) -> None:
        posters, self._posters = self._posters, {}
        for poster in posters.values():
            poster.close(patience)

    def wanted(self) -> dict[str, Any] | None:
        """What a look is asked for; None if there is no target."""
        since = min(self._since, time.time())  # the clock may have been set back
        return {"since": since, "targets": list(self._posters)} if self._posters else None

    def looked(self, push: Mapping[str, Any], body: bytes) -> None:
        if not push:
            return
        self._since = float(push["until"])
        parts: Sequence[tuple[str, int]] = push["parts"]
        for name, length in parts:
            if name in self._posters:
                self._posters[name].put(body[:length])
                self.sent[name] = self.sent.get(name, 0) + 1
                self.bytes[name] = self.bytes.get(name, 0) + length
            body = body[length:]

    @property
    def lost(self) -> dict[str, int]:
        return {name: it.lost for name, it in self._posters.items()}

    def tick(self, _: float) -> float:
        """Say which server began to fail, or takes again what is posted."""
        for name, poster in self._posters.items():
            if news := poster.news():
                self._out.log(f"{name} {news}", "warning")
        return 60.0
