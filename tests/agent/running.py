"""A real agent, as a user starts it, for tests: its folder, its port, its lines."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tests.conftest import COMMAND
from tests.waiting import HANGS

from zombiescope.agent.local_socket import connected

PATIENCE = HANGS


class Agent:
    """A running one; `out` are its events, `log` what it says."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        env: dict[str, str] | None = None,
        listen: str = "127.0.0.1:0",
        through: tuple[str, ...] = (),  # a command that becomes the one after it, as nice does
    ):
        self.folder, self.out, self.log = folder, list[str](), list[str]()
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*through, str(COMMAND), "agent", "--dir", str(folder), "--listen", listen, "--hz", "0", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | (env or {}),
        )
        self._readers = [
            threading.Thread(target=to.extend, args=(stream,), daemon=True)
            for stream, to in ((self.process.stdout, self.out), (self.process.stderr, self.log))
        ]
        for reader in self._readers:
            reader.start()

    @property
    def port(self) -> int:
        return int(self.until(lambda: self.said(r"listens on https?://[^/]*:(\d+)/"))[1])

    def said(self, pattern: str) -> re.Match[str] | None:
        return next((found for line in list(self.log) if (found := re.search(pattern, line))), None)

    def until(self, happens: Callable[[], Any], patience: float = PATIENCE) -> Any:
        deadline = time.monotonic() + patience
        while not (found := happens()):
            assert time.monotonic() < deadline, self.log[-20:]
            assert self.process.poll() is None, self.log
            time.sleep(0.05)
        return found

    def get(self, path: str, **headers: str) -> bytes:
        """By its socket; HTTPError for what is no page, as urlopen has it."""
        self.until(lambda: self.said(r"listens on \S+/agent/socket"))
        client = HTTPConnection("localhost", timeout=PATIENCE)
        client.sock = connected(str(self.folder), PATIENCE)
        with closing(client):
            client.request("GET", path, headers=headers)
            answer = client.getresponse()
            content = answer.read()
        if answer.status >= 400:
            raise HTTPError(path, answer.status, answer.reason, answer.headers, io.BytesIO(content))
        return content

    def looked(self, times: int = 1) -> None:
        """Wait until it has looked so often."""
        self.looked_by(self.get, times)

    def looked_by(self, get: Callable[[str], bytes], times: int = 1) -> None:
        """The same, asked in a way of its own."""

        def enough() -> bool:
            time.sleep(0.15)  # TLS handshakes of one address are paced
            found = re.search(rb'looks_total{result="done"} (\d+)', get("/metrics"))
            return found is not None and int(found[1]) >= times

        self.until(enough)

    def children(self) -> dict[str, int]:
        """Its processes by name."""
        found = {}
        for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            found["examiner" if b"zombiescope.agent.examiner" in words else "recorder"] = int(pid)
        return found

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "agent" / "events.jsonl").read_text().splitlines()]

    def close(self) -> None:
        if self.process.poll() is None:
            self.stop()
        for reader, stream in zip(self._readers, (self.process.stdout, self.process.stderr), strict=True):
            reader.join(PATIENCE)
            assert stream is not None
            stream.close()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)


@contextmanager
def running(folder: Path, *options: str, **more: Any) -> Iterator[Agent]:
    agent = Agent(folder, *options, **more)
    try:
        yield agent
    finally:
        agent.close()


def raw(port: int, content: bytes, patience: float = 10.0) -> bytes:
    """What the server answers to these very bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as client:
        client.sendall(content)
        pieces = []
        while piece := client.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)
