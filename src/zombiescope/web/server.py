"""A page's server: its few files, on this machine only unless --listen is given, for those who have the token.

The token is the first part of every path, so the page's own relative addresses carry it, and nothing else does. Without
it every request is forbidden. The browser may run only our script and connect only to us.
"""

from __future__ import annotations

import gzip
import secrets
import socket
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from zombiescope.core import UserError
from zombiescope.web.door import Door
from zombiescope.web.shell import HEADERS, built, shell

if TYPE_CHECKING:
    from starlette.applications import Starlette

LEVEL = 1  # of compression: it mostly stays on this machine
Part = tuple[str, bytes]  # its type, and its bytes
Asked = Callable[[str, Mapping[str, str]], Part | None]  # a part that has to be worked out, by name and query


def installed() -> None:
    """Raise UserError if the server's packages are missing: nothing else needs them."""
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise UserError(
            "the server needs an extra: pipx install --force 'zombiescope[web]'; a file needs none: -o FILE.html"
        )


def files_of(page: str, title: str) -> dict[str, Part]:
    """What every page is made of: an empty one, its script, its style."""
    head = f'<link rel="stylesheet" href="{page}.css">\n<script src="{page}.js" defer></script>\n'
    return {
        "": ("text/html; charset=utf-8", shell(title, head).encode()),
        f"{page}.js": ("text/javascript; charset=utf-8", built(f"{page}.js")),
        f"{page}.css": ("text/css; charset=utf-8", built(f"{page}.css")),
    }


def application(bundle: bytes, title: str, token: str, opened: Callable[[], None] = lambda: None) -> Starlette:
    """The page of a recording."""
    return guarded(files_of("page", title) | {"bundle": ("application/octet-stream", bundle)}, token, opened)


def guarded(
    files: Mapping[str, Part],
    token: str,
    opened: Callable[[], None] = lambda: None,
    asked: Asked = lambda _name, _query: None,
) -> Starlette:
    """A page below /TOKEN/, everything else forbidden. `opened` is called when somebody with the token has come.

    What is not among `files` is `asked` for; UserError is an answer, None is no such part.
    """
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    packed = {name: (kind, gzip.compress(body, LEVEL, mtime=0)) for name, (kind, body) in files.items()}

    def worked_out(name: str, query: Mapping[str, str]) -> Part | None:
        found = asked(name, query)
        return found and (found[0], gzip.compress(found[1], LEVEL, mtime=0))

    def answer(request: Request) -> Response:
        given = str(request.path_params["token"])
        # In constant time: the time of a refusal must not reveal how much of the guess was right.
        if not secrets.compare_digest(given.encode(), token.encode()):
            return Response("403: forbidden; use the address that `zombiescope` printed\n", 403, HEADERS, "text/plain")
        opened()
        name = request.path_params.get("name")
        if name is None:  # the trailing slash is missing; without it relative addresses would be wrong
            return Response(status_code=307, headers=HEADERS | {"Location": f"/{token}/"})
        try:
            found = packed.get(name) or worked_out(name, request.query_params)
        except UserError as error:
            return Response(f"{error}\n", 422, HEADERS, "text/plain")
        if found is None:
            return Response("404: no such part of the page\n", 404, HEADERS, "text/plain")
        kind, body = found
        return Response(body, 200, HEADERS | {"Content-Encoding": "gzip"}, kind)

    return Starlette(routes=[Route("/{token}/{name:path}", answer), Route("/{token:path}", answer)])


def listening(host: str, port: int) -> socket.socket:
    """A bound socket: with port 0 the system chooses one, and we can print which."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    door = Door(family, socket.SOCK_STREAM)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
        door.listen()  # early clients wait until we are ready
    except (OSError, OverflowError) as error:
        door.close()
        raise UserError(
            f"{host}:{port}: cannot listen there: {str(getattr(error, 'strerror', None) or error).lower()}"
        ) from None
    return door


def address(door: socket.socket, token: str) -> str:
    host, port = door.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/{token}/"


def serve(app: Starlette, door: socket.socket) -> None:
    """Until Ctrl-C."""
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    )
    try:
        server.run(sockets=[door])
    except KeyboardInterrupt:
        pass  # stopped as asked
    finally:
        door.close()
