"""Control: containers start and are removed one after the other, like batch jobs, and leave nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._containers import podman
from zombiescope.lab._scenario import PREFIX, Fault, Truth

TRUTH = Truth()
NEEDS = ("root", "podman")
SECONDS = 10.0
PAUSE = 1.5  # seconds between two of them: about thirty a minute, as on a busy CI node


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    ended = threading.Event()
    with podman() as one:

        def start_and_remove() -> None:
            number = 0
            while not ended.wait(PAUSE / scale):
                number += 1
                name = f"{PREFIX}job-{number}"
                one.run(name, "true")
                one("rm", "-f", "-t", "0", name)

        worker = threading.Thread(target=start_and_remove, daemon=True)
        worker.start()
        try:
            yield Fault(subject="node", says="containers start and stop, which is normal")
        finally:
            ended.set()
            worker.join()
