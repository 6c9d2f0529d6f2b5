"""An address of this machine that leads to an agent in its pod, by kubectl exec, until it is no longer needed.

Each request is a program in the pod that asks the agent by its socket: no token leaves the node, and no port of the
pod is believed, which on the host's network any local user could have bound. Others of this machine may connect to the
address, too: its path begins with a word that they do not know.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from zombiescope.core import UserError, harmless
from zombiescope.plugin.kubectl import Kubectl
from zombiescope.plugin.pods import Pod

RELAY = ("python3", "-I", "-m", "zombiescope.agent.relay")  # in the image
ANSWERS = 120.0  # seconds: the agent gives up after 90
MOST = 32 << 20  # bytes of an answer: the agent's own limit is 24 MB for all of them
ASKS = 10.0  # seconds for a client here to send its request
REST = 0.5  # seconds without a descriptor for one more
RANDOM = 24  # bytes in the address


@contextmanager
def forwarded(kubectl: Kubectl, pod: Pod) -> Iterator[str]:
    """The agent's address here; a UserError in kubectl's own words if it cannot be reached."""
    _answer(kubectl, pod, "/healthz")
    word = secrets.token_urlsafe(RANDOM)

    class Handler(_Handler):
        def answer(self) -> bytes:
            given, _, path = self.path[1:].partition("/")
            if not secrets.compare_digest(given.encode(), word.encode()):
                raise PermissionError
            return _answer(kubectl, pod, f"/{path}")

    with _Server(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/{word}"
        finally:
            server.shutdown()
            serving.join()


def _answer(kubectl: Kubectl, pod: Pod, path: str) -> bytes:
    """Head and all, bounded in size and time: a pod may be a stranger's."""
    code, told, complaints = kubectl.answer(*pod.command(*RELAY, path), seconds=ANSWERS, most=MOST)
    if code:
        lines = complaints.strip().splitlines()
        raise UserError(harmless(f"kubectl exec: {lines[0] if lines else f'no answer, exit code {code}'}", most=300))
    return told


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:  # the connection stays in the queue, so that without a rest this would be a busy loop
            time.sleep(REST)
            raise


class _Handler(BaseHTTPRequestHandler):
    timeout = ASKS

    def answer(self) -> bytes:
        """Head and all."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.close_connection = True
        try:
            self.wfile.write(self.answer())
        except PermissionError:
            self.send_error(403)
        except UserError as error:
            says = f"{error}\n".encode()
            self.send_response(502)
            self.send_header("Content-Length", str(len(says)))
            self.end_headers()
            self.wfile.write(says)

    def log_message(self, *_: Any) -> None:
        """Nothing: stdout is data, and stderr is for people."""
