"""What systemd says about its units, over D-Bus: state, restarts, cgroup, dependencies, restart policy.

Every call has a time limit, so a bus that hangs costs one sample and not the recorder; a bus that is not reachable is
`Unreadable`, and is tried again with the next call. Reading needs no privilege.

While a unit waits for its next restart its ControlGroup is empty and its Result may already be "success": use neither
to detect a restart. NRestarts counts only restarts by systemd itself, and is reset to 0 by every manual start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from zombiescope.audit.loops import RestartPolicy
from zombiescope.audit.running import sees_all
from zombiescope.core import Host, Unreadable
from zombiescope.core.commands import operand, shown_by
from zombiescope.kernel.text import lines

if TYPE_CHECKING:  # asyncio and dbus_fast take 13 MB: only where there is a bus to talk to
    import asyncio

    from dbus_fast.aio import MessageBus

LIMIT = 3.0  # seconds for one call; systemd answers within a few milliseconds, on a starved core within a second
AT_ONCE = 64  # calls in flight: dbus-daemon allows a connection 128 unanswered ones (max_replies_per_connection)
ANOTHER_BUS = "ZOMBIESCOPE_SYSTEMD_BUS"  # an address, such as unix:path=/proc/4711/root/run/dbus/system_bus_socket
SOCKET = "/run/dbus/system_bus_socket"
_NAME, _PATH = "org.freedesktop.systemd1", "/org/freedesktop/systemd1"
_MANAGER, _PROPERTIES = f"{_NAME}.Manager", "org.freedesktop.DBus.Properties"
_UNIT, _SERVICE = f"{_NAME}.Unit", f"{_NAME}.Service"
# The properties of a restart policy.
POLICY = ("Restart", "RestartUSec", "StartLimitIntervalUSec", "StartLimitBurst", "RestartPreventExitStatus")
# Every unit has a start limit; these properties only a service has.
_SERVICES = {
    *("NRestarts", "Result", "ExecStart", "ExecMainStatus", "ControlGroup", "Slice"),
    *("Restart", "RestartUSec", "RestartPreventExitStatus"),
}
_OTHER_ROOT = re.compile(r"unix:path=/proc/(\d+)/root/")
_FOREVER = (1 << 64) - 1  # how systemd says "infinity" in microseconds
_T = TypeVar("_T")


def another_init(host: Host) -> str:
    """The name of PID 1 if it is certainly not systemd, so that no unit and no scope can be checked."""
    if ANOTHER_BUS in os.environ or not sees_all(host):
        return ""
    name = host.read("/proc/1/comm").strip()
    return "" if name in ("systemd", "init") else name


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that systemd has loaded, as ListUnits reports it."""

    name: str
    load: str  # loaded, not-found, masked, bad-setting, error
    active: str  # active, activating, deactivating, inactive, failed
    sub: str  # running, exited, dead, auto-restart …
    path: str  # its object on the bus

    @property
    def state(self) -> str:
        return f"{self.active} ({self.sub})"


class Systemd:
    """A connection to one systemd; opened with the first call."""

    def __init__(self, address: str, limit: float = LIMIT) -> None:
        self._address, self._limit = address, limit
        self._running: asyncio.AbstractEventLoop | None = None
        self._bus: MessageBus | None = None
        self._source = (
            address.removeprefix("unix:path=")
            if address.startswith("unix:path=/")
            else shown_by("busctl", f"--address={address}")
        )

    def source(self, unit: Unit | None, name: str) -> str:
        """The command that shows the same property of a unit, or of systemd as a whole."""
        if _is_nodes(self._address):
            return shown_by("systemctl", "show", "-p", name, *(operand(unit.name) if unit else ()))
        interface = _MANAGER if unit is None else _SERVICE if name in _SERVICES else _UNIT
        path = unit.path if unit else _PATH
        return shown_by("busctl", f"--address={self._address}", "get-property", _NAME, path, interface, name)

    def close(self) -> None:
        self._drop()
        if self._running is not None:
            self._running.close()

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        import asyncio

        if self._running is None:
            self._running = asyncio.new_event_loop()
        return self._running

    def __enter__(self) -> Systemd:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def units(self, *patterns: str) -> list[Unit]:
        """All units in memory whose names match one of the patterns ("*.service")."""
        call = _message(_PATH, _MANAGER, "ListUnitsByPatterns", "asas", [[], list(patterns)])
        (rows,) = self._asked([call])[0]
        return [Unit(row[0], row[2], row[3], row[4], row[6]) for row in rows]

    def get(self, paths: Iterable[str], properties: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Some properties of some units, by path; what a unit does not have, or a unit that is gone, is left out.

        One by one: GetAll makes systemd look up the unit's file on disk, and costs ten times as much.
        """
        wanted = [(path, name) for path in paths for name in properties]
        calls = [
            _message(path, _PROPERTIES, "Get", "ss", [_SERVICE if name in _SERVICES else _UNIT, name])
            for path, name in wanted
        ]
        said: dict[str, dict[str, Any]] = {}
        for (path, name), body in zip(wanted, self._asked(calls, strict=False), strict=True):
            if body:
                said.setdefault(path, {})[name] = _plain(body[0])
        return said

    def everything(self, path: str) -> dict[str, Any]:
        """All properties of a unit."""
        (said,) = self._asked([_message(path, _PROPERTIES, "GetAll", "s", [""])])[0]
        return {name: _plain(value) for name, value in said.items()}

    def wait(self, seconds: float) -> None:
        """Wait while the connection is served."""
        import asyncio

        self._loop.run_until_complete(asyncio.sleep(seconds))

    def _asked(self, calls: Sequence[Mapping[str, Any]], *, strict: bool = True) -> list[list[Any]]:
        """The answers, in order; with `strict` an error fails the whole, else it is an empty answer."""
        path, *_ = self._address.removeprefix("unix:path=").split(",")
        if path.startswith("/") and not os.path.exists(path):
            raise Unreadable(self._source, "systemd's bus is away: no such file or directory")
        answers: list[list[Any]] = []
        for start in range(0, len(calls), AT_ONCE):
            answers += self._within(self._call(calls[start : start + AT_ONCE], strict))
        return answers

    async def _call(self, calls: Sequence[Mapping[str, Any]], strict: bool) -> list[list[Any]]:
        import asyncio

        from dbus_fast import BusType, Message, MessageType
        from dbus_fast.aio import MessageBus

        if self._bus is None or not self._bus.connected:
            self._bus = await MessageBus(bus_address=self._address, bus_type=BusType.SYSTEM).connect()
        replies = await asyncio.gather(*(self._bus.call(Message(**call)) for call in calls))
        answers: list[list[Any]] = []
        for reply in replies:
            failed = reply is None or reply.message_type is MessageType.ERROR
            if failed and strict:
                why = f"{reply.error_name}: {' '.join(map(str, reply.body))}" if reply is not None else "no answer"
                raise Unreadable(self._source, why)
            answers.append([] if failed or reply is None else reply.body)
        return answers

    def _within(self, question: Coroutine[Any, Any, _T]) -> _T:
        import asyncio

        from dbus_fast.errors import AuthError, DBusError, InvalidAddressError, InvalidMessageError

        try:
            return self._loop.run_until_complete(asyncio.wait_for(question, self._limit))
        except TimeoutError:
            self._drop()
            raise Unreadable(self._source, f"no answer in {self._limit:g} s") from None
        except (OSError, EOFError, AuthError, DBusError, InvalidAddressError, InvalidMessageError) as error:
            self._drop()
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unreadable(self._source, f"systemd's bus is away: {why.lower()}") from error

    def _drop(self) -> None:
        """Drop a connection that is closed, or whose answers we no longer wait for."""
        if self._bus is not None and self._bus.connected:
            import asyncio

            self._bus.disconnect()
            # Lets the loop see the end, so that nothing is left open in it.
            self._loop.run_until_complete(asyncio.sleep(0))
        self._bus = None


def address_for(host: Host) -> str:
    """The bus of the machine that `host` shows; ZOMBIESCOPE_SYSTEMD_BUS names another one, for labs and tests."""
    if not host.live:
        raise Unreadable(SOCKET, "a recorded root has no D-Bus")
    if another := os.environ.get(ANOTHER_BUS):
        return another
    return f"unix:path={host.real(SOCKET)}"


def _is_nodes(address: str) -> bool:
    """Whether a person on the node reaches this bus without an address: its own, also through a mount of its root."""
    other = _OTHER_ROOT.match(address)
    return address.endswith(SOCKET) and (other is None or other[1] == "1")


def system_of(host: Host) -> Host:
    """The system whose units the bus manages: this machine, or the namespaces that the bus is in."""
    other = _OTHER_ROOT.match(os.environ.get(ANOTHER_BUS, ""))
    if other is None or not host.live:
        return host
    root = f"/proc/{other[1]}/root"
    enter = ("nsenter", f"--target={other[1]}", "-m", "-p", "-C", "-u", "-i", "-n", f"--root={root}", "--")
    return Host(root, live=True, enter=enter)


def cgroup_prefix(host: Host, address: str) -> str:
    """The root of that systemd's cgroups, as this machine sees it: "" unless it runs in a namespace."""
    other = _OTHER_ROOT.match(address)
    if other is None:
        return ""
    rows = [line.split(":", 2) for line in lines(host.read(f"/proc/{other[1]}/cgroup"))]
    places = {row[1]: row[2] for row in rows if len(row) == 3}
    return places.get("name=systemd", places.get("", "")).removesuffix("/init.scope").removesuffix("/")


def cgroup_of(name: str, said: Mapping[str, Any]) -> str:
    """A unit's cgroup. While it waits for a restart it has none; then the path that its slice will give it."""
    if group := said.get("ControlGroup", ""):
        return str(group)
    slices = str(said.get("Slice", "") or "system.slice").removesuffix(".slice").split("-")
    above = "".join(f"/{'-'.join(slices[:depth])}.slice" for depth in range(1, len(slices) + 1))
    return f"{above}/{name}" if slices != ["", ""] else f"/{name}"


def policy_of(said: Mapping[str, Any]) -> RestartPolicy:
    codes, signals = said.get("RestartPreventExitStatus", ((), ()))
    return RestartPolicy(
        restart=str(said.get("Restart", "no")),
        pause=_seconds(said.get("RestartUSec", 0)),
        interval=_seconds(said.get("StartLimitIntervalUSec", 0)),
        burst=int(said.get("StartLimitBurst", 0)),
        prevented_by=tuple(map(str, (*codes, *signals))),
    )


def _seconds(microseconds: int) -> float:
    return float("inf") if microseconds == _FOREVER else microseconds / 1e6


def _message(path: str, interface: str, member: str, signature: str, body: list[Any]) -> dict[str, Any]:
    said = {"destination": _NAME, "path": path, "interface": interface, "member": member}
    return {**said, "signature": signature, "body": body}


def _plain(value: Any) -> Any:
    from dbus_fast import Variant

    return value.value if isinstance(value, Variant) else value
