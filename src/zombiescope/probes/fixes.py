"""What zombiescope changed on this node: each fix that was planned, finished, failed or undone, from its ledger.

Overhead: one stat of the file, 10 µs; if it has grown, a read of a few KB for each fix ever made.
Kernel: none: /var/lib/zombiescope/fixes.jsonl, or the folder that ZOMBIESCOPE_LEDGER names; see treatment/ledger.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zombiescope.core import Host, Reading, Unreadable
from zombiescope.core.root_only import trusted
from zombiescope.kernel.text import lines
from zombiescope.places.own_folders import LEDGER_ENVIRONMENT, LEDGER_FILE, LEDGER_FOLDER

EVERY = 30.0
GIVES = ("fix_event",)
EVENTS = GIVES
TOLD = ("planned", "finished", "failed", "undone", "abandoned")  # the ledger's events that one would mark on a chart
PAST = 600.0  # seconds before the first sample that are reported too, as with the kernel's log
MOST = 1_000  # events in one sample


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading]]]:
    """Remembers how far it has read."""
    size, since = -1, 0.0

    def look() -> Iterator[Reading]:
        nonlocal size, since
        path = _path(host)
        status = host.status(path)
        if status is None:
            raise Unreadable(path, "no fix was ever made here")
        if status.st_size != size:
            if host.root == "/":
                trusted(path)  # what root tells of its own doings only root may have written
            size = status.st_size
            found = [it for it in _events(host, path) if it.at > max(since, host.now() - PAST)]
            since = max([since, *(it.at for it in found)])
            yield from found[:MOST]

    yield look


def read(host: Host) -> Iterator[Reading]:
    with watch(host) as look:
        yield from look()


def _path(host: Host) -> str:
    folder = os.environ.get(LEDGER_ENVIRONMENT, LEDGER_FOLDER) if host.live else LEDGER_FOLDER
    return f"{folder}/{LEDGER_FILE}"


def _events(host: Host, path: str) -> Iterator[Reading]:
    plans: dict[str, str] = {}
    for line in lines(host.read(path)):
        try:
            event = json.loads(line)
            number, kind, at = str(event["fix"]), str(event["event"]), float(event["at"])
            if kind == "planned":
                plans[number] = f"{event['plan']['name']} for {event['plan']['cures']['subject']}"
        except (ValueError, KeyError, TypeError):
            continue  # cut off by a crash
        if kind in TOLD and number in plans:
            word = "begun" if kind == "planned" else kind
            yield Reading(
                what=GIVES[0], subject=f"fix:{number}", value=1, at=at, source=path, text=f"{plans[number]}: {word}"
            )
