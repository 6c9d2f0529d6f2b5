"""What the agent's server answers: read-only, and no part of a request is ever a path on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from zombiescope.agent import queries
from zombiescope.agent.forms import best_form
from zombiescope.agent.live_page import BUNDLE
from zombiescope.agent.serving import Later, Request, Response
from zombiescope.agent.settings import Settings

JSON = "application/json"
EVENTS = 200  # of the newest, in /events
BYTES = "application/octet-stream"
INDEX = b"""zombiescope agent
/page/     the time-travel page of the last minutes, or of any range
/metrics   for Prometheus, as text or OpenMetrics
/healthz   200 while it records and looks, else 503 with the reason
/case      the last diagnosis, as `diagnose --format json` prints it
/findings  what goes on now
/events    what began, changed and ended lately
/reboot    whether nothing but a reboot would help, and why
/remedies  what the agent fixed by itself, if it may
/fleet/hours                      hours of this node that are over
/fleet/parcel?hour=1794000000     an hour of this node for a fleet's store
/debug/pprof/profile?seconds=30   CPU profile of the last seconds, for go tool pprof, Parca, Alloy
"""


class Shown(Protocol):
    """What the pages are made of."""

    settings: Settings

    def forms(self) -> Sequence[str]: ...
    def metrics(self, form: str) -> bytes: ...
    def health(self) -> list[str]: ...
    def case(self) -> str: ...
    def going_on(self) -> Sequence[dict[str, Any]]: ...
    def events(self) -> Sequence[dict[str, Any]]: ...
    def needs_reboot(self) -> Sequence[str]: ...
    def remedies(self) -> Sequence[dict[str, Any]]: ...
    def page_file(self, name: str) -> Response: ...
    def ask(self, question: Mapping[str, Any], kind: str) -> Response | Later: ...


def pages(shown: Shown, refused: Callable[[Request], Response | None]) -> Callable[[Request], Response | Later]:
    """`refused`: why a request is not answered."""

    def answer(request: Request) -> Response | Later:
        return refused(request) or _page(request, shown)

    return answer


def _page(request: Request, shown: Shown) -> Response | Later:
    try:
        return _worked_out(request, shown) or _known(request, shown)
    except queries.BadQuery as error:
        return Response(400, f"{error}\n".encode())


def _worked_out(request: Request, shown: Shown) -> Response | Later | None:
    """What the examiner is asked for, and the page that asks it."""
    if request.path == "/debug/pprof/profile":
        return shown.ask(queries.profile(request.query), BYTES)
    if request.path == "/page/bundle":
        return shown.ask(queries.page(request.query, shown.settings.hours * 3600.0), BUNDLE)
    if request.path == "/fleet/hours":
        return shown.ask({"do": "hours"}, JSON)
    if request.path == "/fleet/parcel":
        own = shown.settings
        return shown.ask(queries.parcel(request.query, own.ship_labels, clips=own.ship_clips == "on"), BYTES)
    if request.path == "/page":
        return Response(307, b"", headers=(("Location", "/page/"),))
    if request.path.startswith("/page/"):
        return shown.page_file(request.path.removeprefix("/page/"))
    return None


def _known(request: Request, shown: Shown) -> Response:
    match request.path:
        case "/metrics":
            form = best_form(request.headers.get("accept", ""), shown.forms())
            return Response(200, shown.metrics(form), form)
        case "/healthz":
            troubles = shown.health()
            body = json.dumps({"healthy": not troubles, "troubles": troubles}).encode() + b"\n"
            return Response(503 if troubles else 200, body, JSON)
        case "/case":
            text = shown.case()
            return Response(200, text.encode(), JSON) if text else Response(503, b"not looked yet\n")
        case "/findings":
            return _json(shown.going_on())
        case "/events":
            return _json(shown.events()[-EVENTS:])
        case "/reboot":
            why = list(shown.needs_reboot())
            return Response(200, json.dumps({"needed": bool(why), "because": why}).encode() + b"\n", JSON)
        case "/remedies":
            return _json(shown.remedies())
        case "/":
            return Response(200, INDEX)
    return Response(404, b"no such page; / lists them\n")


def _json(value: Sequence[dict[str, Any]]) -> Response:
    return Response(200, json.dumps(list(value)).encode() + b"\n", JSON)
