"""`fleet serve`: the receiver, and a compactor that joins what has come, in a process of its own now and then."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zombiescope.fleet.store import Store
from zombiescope.places.own_python import FOLDER, STORES, environment, own_python

if TYPE_CHECKING:
    from starlette.applications import Starlette

CONNECTIONS = 512
LONGEST = 3600.0  # seconds of one compaction: then it hangs


def serve(
    app: Starlette, door: socket.socket, store: Store, every: float, keep: Sequence[str], cert: str = "", key: str = ""
) -> None:
    """Until Ctrl-C or SIGTERM. `every`: seconds between two compactions; 0: others compact. `keep`: options of tidy."""
    import uvicorn

    tls = {"ssl_certfile": cert, "ssl_keyfile": key} if cert else {}
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=5,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=5,
        **tls,  # type: ignore[arg-type]
    )
    ends = threading.Event()
    compactor = threading.Thread(target=_compacts, args=(store.url, every, keep, ends), daemon=True)
    if every:
        compactor.start()
    try:
        uvicorn.Server(config).run(sockets=[door])
    except KeyboardInterrupt:
        pass  # stopped as asked
    finally:
        ends.set()
        door.close()


def _compacts(url: str, every: float, keep: Sequence[str], ends: threading.Event) -> None:
    """In processes of their own: what a parcel does to one, it does to that alone."""
    while not ends.wait(every):
        for command in (("compact",), ("tidy", *keep)):
            _does(own_python("zombiescope", "fleet", *command, "--store", url), ends)


def _does(command: Sequence[str], ends: threading.Event) -> None:
    process = subprocess.Popen(
        command,
        cwd=FOLDER,
        env=environment(*STORES),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    for _ in range(int(LONGEST)):
        if process.poll() is not None or ends.wait(1.0):
            break
    if process.poll() is None:
        process.kill()
    if process.wait() > 0:
        print(f"fleet {command[5]} failed with exit code {process.returncode}; it is tried again", file=sys.stderr)
