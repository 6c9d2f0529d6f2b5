"""A real S3 store (SeaweedFS) on this machine, and a proxy in front of it that fails as stores do."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KEY, SECRET = "test-key", "test-secret-of-some-letters"
RIGHTS = {"identities": [{"name": "t", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}]}
PATIENCE = 60.0


def weed() -> str | None:
    """Where it is: `make peers` fetches it."""
    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


def _ports(count: int) -> list[int]:
    doors = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [it.getsockname()[1] for it in doors]
    for it in doors:
        it.close()
    return found


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """The port of a new, empty store."""
    program = weed()
    assert program is not None
    (folder / "rights.json").write_text(json.dumps(RIGHTS))
    master, volume, filer, s3, *grpc = _ports(8)
    data = folder / "data"
    data.mkdir()
    ports = {"master.port": master, "volume.port": volume, "filer.port": filer, "s3.port": s3}
    ports |= dict(zip(("master.port.grpc", "volume.port.grpc", "filer.port.grpc", "s3.port.grpc"), grpc, strict=True))
    command = [program, "server", "-ip=127.0.0.1", f"-dir={data}", "-s3", f"-s3.config={folder / 'rights.json'}"]
    command += ["-volume.max=5", "-master.volumeSizeLimitMB=64", *(f"-{name}={port}" for name, port in ports.items())]
    with (folder / "weed.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder)
        try:
            _until(lambda: _answers(s3), process, folder / "weed.log")
            yield s3
        finally:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as asked:
        asked.settimeout(5)
        asked.sendall(b"GET /status HTTP/1.0\r\n\r\n")
        return asked.recv(20).startswith(b"HTTP/1.")
    return False


def _until(happens: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not happens():
        assert process.poll() is None and time.monotonic() < end, log.read_text()[-2000:]
        time.sleep(0.1)


def variables(port: int, secret: str = SECRET) -> dict[str, str]:
    return {
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
    }


def make_bucket(port: int, name: str) -> None:
    """By SeaweedFS's own rule: a bucket is a folder of its filer. With S3's signed request, as any client does."""
    import datetime
    import hashlib
    import hmac
    from http.client import HTTPConnection

    now = datetime.datetime.now(datetime.UTC)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    host, empty = f"127.0.0.1:{port}", hashlib.sha256(b"").hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    head = f"host:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{stamp}\n"
    asked = hashlib.sha256(f"PUT\n/{name}\n\n{head}\n{names}\n{empty}".encode()).hexdigest()
    scope = f"{day}/us-east-1/s3/aws4_request"
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signed = hmac.digest(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{asked}".encode(), "sha256").hex()
    told = f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, Signature={signed}"
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Host": host, "x-amz-content-sha256": empty, "x-amz-date": stamp, "Authorization": told}
    connection.request("PUT", f"/{name}", headers=headers)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    assert answer.status == 200, said


@contextmanager
def failing(port: int, how: Callable[[int], str]) -> Iterator[int]:
    """A proxy before the store. `how` hears the number of a connection: pass, cut (in the middle of what is sent), 500,
    or slow (an answer after two seconds)."""
    door = socket.create_server(("127.0.0.1", 0))
    ends = threading.Event()

    def each(number: int, client: socket.socket) -> None:
        with suppress(OSError), client:
            mode = how(number)
            if mode == "500":
                client.recv(65536)
                client.sendall(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", port)) as behind:
                back = threading.Thread(
                    target=_pump, args=(behind, client, 2.0 if mode == "slow" else 0.0), daemon=True
                )
                back.start()
                _pump(client, behind, most=700 if mode == "cut" else None)
                if mode != "cut":
                    back.join(30)

    def accept() -> None:
        number = 0
        while not ends.is_set():
            with suppress(OSError):
                client, _ = door.accept()
                threading.Thread(target=each, args=(number, client), daemon=True).start()
                number += 1

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield door.getsockname()[1]
    finally:
        ends.set()
        with suppress(OSError):
            door.shutdown(socket.SHUT_RDWR)
        door.close()


def _pump(source: socket.socket, to: socket.socket, pause: float = 0.0, most: int | None = None) -> None:
    """Until it ends, or until so many bytes have passed: then both are closed."""
    passed = 0
    with suppress(OSError):
        while piece := source.recv(65536 if most is None else 256):
            time.sleep(pause)
            to.sendall(piece)
            passed += len(piece)
            if most is not None and passed >= most:
                source.shutdown(socket.SHUT_RDWR)
                break
        to.shutdown(socket.SHUT_RDWR)
