"""`fleet serve`: the receiver, and a compactor that joins what has come, in a process of its own now and then."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from zombiescope.fleet.store import Store
from zombiescope.places.own_python import FOLDER, environment, own_python

if TYPE_CHECKING:
    from starlette.applications import Starlette

CONNECTIONS = 512
LONGEST_COMPACTION = 3600.0  # seconds: then it hangs


def serve(app: Starlette, door: socket.socket, store: Store, every: float, cert: str = "", key: str = "") -> None:
    """Until Ctrl-C or SIGTERM. `every`: seconds between two compactions; 0: others compact."""
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
    compactor = threading.Thread(target=_compacts, args=(store.url, every, ends), daemon=True)
    if every:
        compactor.start()
    try:
        uvicorn.Server(config).run(sockets=[door])
    except KeyboardInterrupt:
        pass  # stopped as asked
    finally:
        ends.set()
        door.close()


def _compacts(url: str, every: float, ends: threading.Event) -> None:
    """A process of its own: what a parcel does to it, it does to that alone. Killed at any moment, nothing is lost."""
    while not ends.wait(every):
        command = own_python("zombiescope", "fleet", "compact", "--store", url)
        process = subprocess.Popen(
            command, cwd=FOLDER, env=environment(), stdout=subprocess.DEVNULL, start_new_session=True
        )
        for _ in range(int(LONGEST_COMPACTION)):
            if process.poll() is not None or ends.wait(1.0):
                break
        if process.poll() is None:
            process.kill()
        if process.wait() > 0:
            print(f"compaction failed with exit code {process.returncode}; it is tried again", file=sys.stderr)
