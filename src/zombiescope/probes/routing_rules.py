"""Routing rules that are added or removed, and who does it, as the kernel announces them.

Overhead: one read of a socket every six seconds; about 10 µs for each change.
Kernel: rtnetlink(7), see kernel/rule_events.py. Only changes while it listens are seen, in the node's own network
    namespace. The process is the one that the kernel names by the port of its socket, and is looked up at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.kernel.mounted_node import NO_NETWORK
from zombiescope.kernel.rule_events import SOURCE, Change, RuleEvents

EVERY = 6.0
GIVES = ("routing_rule_change",)
EVENTS = GIVES  # each change is one
REMOVED, ADDED = -1, 1  # values


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Keeps listening, so that each sample gives the changes since the last one."""
    if not host.live:
        raise Unreadable(SOURCE, "a copy of files announces nothing")
    if "net" in host.apart:
        raise Unreadable(SOURCE, NO_NETWORK)
    with closing(RuleEvents()) as events:
        yield lambda: _told(host, *events.read())


def read(host: Host) -> Iterator[Reading | Blind]:
    with watch(host) as look:
        yield from look()


def _told(host: Host, changes: list[Change], missed: bool) -> Iterator[Reading | Blind]:
    at, names = host.now(), dict[int, str]()
    for place, change in enumerate(changes):
        if change.port not in names:
            names[change.port] = _name(host, change.port)
        text = f"{change.words} by {names[change.port]}"
        value = REMOVED if change.removed else ADDED
        # One after the other, a microsecond apart: two events of one time would be one.
        yield Reading(what=GIVES[0], subject="node", value=value, at=at + place * 1e-6, source=SOURCE, text=text)
    if missed:
        yield Blind(what=GIVES[0], source=SOURCE, why="changes were lost: they came too fast", subject="node")


def _name(host: Host, port: int) -> str:
    """process:NAME[PID] of who asked; a port that is no process, or one that is gone, by its number."""
    if not port:
        return "the kernel"
    try:
        return f"process:{host.read(f'/proc/{port}/comm').rstrip()}[{port}]"
    except Unreadable:
        return f"port {port}"
