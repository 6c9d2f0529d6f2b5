"""A receiver for those without object storage: takes parcels from nodes that have the token, into a store.

What a node sends is not opened here; only its key, its size and its digest are looked at. Each is there whole, or not
at all, before the node hears that it was taken.
"""

from __future__ import annotations

import asyncio
import hmac
import shutil
import time
from typing import TYPE_CHECKING

from zombiescope.core import UserError
from zombiescope.fleet.hours import SECONDS, Hour, node_of, of_key, parcel_key
from zombiescope.fleet.parcel import MOST_PARCEL, Refused, head_of
from zombiescope.fleet.store import Folder, Store

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

AT_ONCE = 32  # bodies that are read at a time: 16 MB each at most
SENDS_FOR = 60.0  # seconds that a node may take to send one
LEAST_FREE = 1 << 30  # bytes of the disk that stay free
OLDEST = 400 * 24 * SECONDS  # seconds: hours that are older come from a clock that was never set


def application(store: Store, token: str) -> Starlette:
    """PUT and HEAD of incoming/…/NODE.parcel, with a bearer token unless it is empty; /healthz for anybody."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    room = asyncio.Semaphore(AT_ONCE)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def parcel(request: Request) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token and not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
            return PlainTextResponse("a token is needed\n", 401, {"WWW-Authenticate": "Bearer"})
        key = request.path_params["key"]
        if why := refused(key, time.time()):
            return PlainTextResponse(f"{why}\n", 400)
        try:
            if request.method == "HEAD":
                return PlainTextResponse(status_code=200 if await run_in_threadpool(store.has, key) else 404)
            if room.locked():
                return PlainTextResponse("too many at once\n", 503, {"Retry-After": "30"})
            async with room:
                content = await asyncio.wait_for(_body(request), SENDS_FOR)
                head_of(content)
                if _full(store):
                    return PlainTextResponse("the disk is full\n", 507)
                new = await run_in_threadpool(store.create, key, content)
        except ClientDisconnect:
            return PlainTextResponse("cut short\n", 400)  # nobody hears it
        except TimeoutError:
            return PlainTextResponse(f"not sent within {SENDS_FOR:.0f} s\n", 408)
        except Refused as error:
            return PlainTextResponse(f"{error}\n", 422)
        except UserError as error:
            return PlainTextResponse(f"{error}\n", 503, {"Retry-After": "60"})
        return PlainTextResponse("taken\n", 201) if new else PlainTextResponse("it is there already\n", 412)

    return Starlette(routes=[Route("/healthz", healthz), Route("/{key:path}", parcel, methods=["PUT", "HEAD"])])


def refused(key: str, now: float) -> str:
    """Why this is no key of a parcel; empty if it is one."""
    found = of_key(key)
    node = node_of(found[1]) if found else None
    if found is None or node is None or key != parcel_key(found[0], node):
        return "not the key of a parcel"
    if not _sensible(found[0], now):
        return "this hour is not over, or years ago: is the node's clock right?"
    return ""


def _sensible(hour: Hour, now: float) -> bool:
    return now - OLDEST < hour.start and hour.end < now + SECONDS


async def _body(request: Request) -> bytes:
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MOST_PARCEL:
            raise Refused(f"larger than a parcel can be, {MOST_PARCEL >> 20} MB")
    return bytes(content)


def _full(store: Store) -> bool:
    try:
        return isinstance(store, Folder) and shutil.disk_usage(store.folder).free < LEAST_FREE
    except OSError:
        return False  # the first parcel makes the folder
