"""Which units start at boot: those that default.target pulls in, directly or through others.

A unit is pulled in by Wants=, Requires=, BindsTo=, Upholds= of a unit that starts, or by a link in its .wants,
.requires or .upholds folder; a socket, timer or path that starts triggers its service, a rule of udev what it wants.
Without a default.target in
the root, and for targets that a generator of this root may pull in, every target counts that is not for another
occasion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from zombiescope.audit.unit_file import UnitFile
from zombiescope.core import Host, Unreadable

MOST_UNITS = 20_000  # of one root; a full desktop has a thousand
DEFAULT = "default.target"
GENERATORS = (
    "/etc/systemd/system-generators",
    "/run/systemd/system-generators",
    "/usr/local/lib/systemd/system-generators",
    "/usr/lib/systemd/system-generators",
    "/lib/systemd/system-generators",
)
SYSV = "systemd-sysv-generator"
# Started by udev when the hardware is there (systemd.special(7)); an image does not say on what it will run.
_HARDWARE = ("bluetooth.target", "printer.target", "smartcard.target", "sound.target", "usb-gadget.target")
_OTHER_OCCASIONS = (
    *("rescue.target", "emergency.target", "shutdown.target", "reboot.target", "poweroff.target", "halt.target"),
    *("kexec.target", "exit.target", "final.target", "umount.target", "sleep.target", "suspend*.target"),
    *("hibernate.target", "hybrid-sleep.target", "initrd*.target", "ctrl-alt-del.target", "factory-reset*.target"),
    *("system-update*.target", "soft-reboot.target", "runlevel[016].target", "storage-target-mode.target"),
)
Load = Callable[[str], UnitFile | None]


def pulled_in(
    load: Load,
    linked: Mapping[str, Iterable[str]],
    roots: Iterable[str],
    others: Mapping[str, str],
    unread: dict[str, str],
) -> dict[str, dict[str, bool]]:
    """What starts, by its name: the units that pull it in (True) or only trigger it (False).

    `load` gives a unit under its own name, whatever alias it was asked for; `linked` are the units that a unit's
    folders of links name; `others` are started by what is no unit: their names, and what starts them. That there are
    more than are followed is added to `unread`: what the rest starts is not known.
    """
    found: dict[str, dict[str, bool]] = {}
    unvisited = list(roots)
    for name, by in others.items():
        if (other := load(name)) is not None:
            found.setdefault(other.name, {})[by] = False
            unvisited.append(other.name)
    visited: set[str] = set()
    while unvisited and len(visited) < MOST_UNITS:
        unit = load(unvisited.pop())
        if unit is None or unit.masked or unit.name in visited:
            continue
        visited.add(unit.name)
        for name, pulls in _started_by(unit, linked):
            other = load(name)
            if other is not None and other.name != unit.name:
                askers = found.setdefault(other.name, {})
                askers[unit.name] = askers.get(unit.name, False) or pulls
                unvisited.append(other.name)
    if set(unvisited) - visited:
        unread[DEFAULT] = f"starts more than {MOST_UNITS:,} units"
    return found


def _started_by(unit: UnitFile, linked: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, bool]]:
    yield from ((name, True) for name in linked.get(unit.name, ()))
    yield from ((name, True) for name in unit.pulls())
    yield from ((name, False) for name in unit.triggers())


def roots(targets: Iterable[str], *, default: bool, generated: bool) -> list[str]:
    """Where boot begins. `default`: the root has a default.target; `generated`: generators may pull in more."""
    first = [DEFAULT, *_HARDWARE] if default else list(_HARDWARE)
    if default and not generated:
        return first
    return [*first, *(it for it in targets if not any(fnmatchcase(it, other) for other in _OTHER_OCCASIONS))]


def generators(host: Host) -> list[str]:
    """Programs of this root that write units at boot, without systemd's own: what they will write is not known."""
    return sorted({name for name in _generators(host) if not name.startswith(("systemd-", "."))})


def has_sysv(host: Host) -> bool:
    """Whether SysV scripts become units: not in a root whose systemd came without that generator."""
    listed = _generators(host)
    return not listed or SYSV in listed


def _generators(host: Host) -> list[str]:
    found = []
    for folder in GENERATORS:
        try:
            found += host.listing(folder)
        except Unreadable:
            continue
    return found
