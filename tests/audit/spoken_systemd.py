"""Who answers on a real bus in systemd's name and says what a test wants: states that a real one is rarely in."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

NAME = "org.freedesktop.systemd1"
_OF_UNITS = {*("StartLimitIntervalUSec", "StartLimitBurst"), *("WantedBy", "RequiredBy", "BoundBy", "RequisiteOf")}
_OBJECTS = "/org/freedesktop/systemd1/unit"
_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>
"""


@dataclass(frozen=True)
class Says:
    """What it says of one unit; a property that is a list is asked for more than once, and the last one stays."""

    load: str = "loaded"
    active: str = "active"
    sub: str = "running"
    properties: Mapping[str, Variant | Sequence[Variant]] = field(default_factory=dict)


@contextmanager
def speaking(folder: Path, units: Mapping[str, Says]) -> Iterator[str]:
    """The address of a bus on which somebody answers for these units."""
    config, path = folder / "bus.conf", folder / "bus"
    config.write_text(_CONFIG.format(path=path))
    daemon = subprocess.Popen(
        ["dbus-daemon", f"--config-file={config}", "--nofork", "--print-address=1"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert daemon.stdout is not None and daemon.stdout.readline().startswith("unix:")
        ready, end = threading.Event(), threading.Event()
        thread = threading.Thread(
            target=lambda: asyncio.run(_answering(f"unix:path={path}", dict(units), ready, end)), daemon=True
        )
        thread.start()
        assert ready.wait(30)
        try:
            yield f"unix:path={path}"
        finally:
            end.set()
            thread.join(30)
    finally:
        daemon.terminate()
        daemon.communicate(timeout=30)


async def _answering(address: str, units: dict[str, Says], ready: threading.Event, end: threading.Event) -> None:
    bus = await MessageBus(bus_address=address).connect()
    paths = {name: f"{_OBJECTS}/u{place}" for place, name in enumerate(units)}
    named = {path: name for name, path in paths.items()}
    times: dict[tuple[str, str], int] = {}

    def rows(patterns: list[str]) -> list[list[Any]]:
        matching = [name for name in units if any(fnmatchcase(name, it) for it in patterns)]
        said = [(name, units[name], paths[name]) for name in matching]
        return [[name, "", it.load, it.active, it.sub, "", path, 0, "", "/"] for name, it, path in said]

    def of(name: str, what: str) -> Variant | None:
        said = units[name].properties.get(what)
        if said is None or isinstance(said, Variant):
            return said
        times[name, what] = times.get((name, what), -1) + 1
        return said[min(times[name, what], len(said) - 1)]

    def answer(message: Message) -> Message | bool:
        if message.message_type is not MessageType.METHOD_CALL or message.destination != NAME:
            return False
        if message.member == "ListUnitsByPatterns":
            return Message.new_method_return(message, "a(ssssssouso)", [rows(message.body[1])])
        unit = named.get(message.path or "")
        if unit and message.member == "Get":  # a property belongs to one interface, as with a real one
            interface, what = message.body
            asked = interface == f"{NAME}.{'Unit' if what in _OF_UNITS else 'Service'}"
            if asked and (value := of(unit, what)) is not None:
                return Message.new_method_return(message, "v", [value])
        if unit and message.member == "GetAll":
            every = {what: it for what in units[unit].properties if (it := of(unit, what)) is not None}
            return Message.new_method_return(message, "a{sv}", [every])
        return Message.new_error(message, f"{NAME}.NoSuchUnit", "no such unit")

    bus.add_message_handler(answer)
    await bus.request_name(NAME)
    ready.set()
    while not end.is_set():
        await asyncio.sleep(0.02)
    bus.disconnect()
    await asyncio.sleep(0)
