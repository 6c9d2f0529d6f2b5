"""Units that something other than systemd's own files starts: rules of udev at a device, D-Bus at a call.

udev goes through all devices at boot, so a unit that a rule wants starts then, if the hardware is there: an image does
not say on what it will run, so it counts as started. A unit behind a bus name (SystemdService=) starts when somebody
calls that name, maybe never. What a rule runs itself (RUN=, PROGRAM=) is not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.audit.unit_file import KINDS
from zombiescope.audit.unit_syntax import ended_lines, parse
from zombiescope.core import Host, Unreadable
from zombiescope.core.host import MOST_NAMES

# udev(7), dbus-daemon(1): of two files of the same name that of the first folder counts.
RULES = tuple(f"{place}/udev/rules.d" for place in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"))
BUS_NAMES = tuple(f"{place}/dbus-1/system-services" for place in ("/run", "/usr/local/share", "/usr/share", "/lib"))
MOST_BYTES = 1 << 20  # of one file; the largest rules in use have some hundred kilobytes
MOST_FILES = 2_000
_WANTS = re.compile(r'ENV\{SYSTEMD_WANTS\}\s*(?:\+=|:=|=(?!=))\s*"([^"]*)"')
_SECTION = "D-BUS Service"


def by_devices(host: Host, unread: dict[str, str]) -> dict[str, str]:
    """Units that a rule of udev wants, each with the rule's file. What cannot be read is added to `unread`."""
    found: dict[str, str] = {}
    for path, text in _files(host, RULES, ".rules", unread):
        for line in _joined(text):
            for listed in _WANTS.findall(line):
                for name in map(_template, listed.split()):
                    if name.endswith(KINDS):
                        found.setdefault(name, path)
    return found


def by_bus(host: Host, unread: dict[str, str]) -> dict[str, str]:
    """Units that D-Bus starts at the first call of a name, each with the file that says so."""
    found: dict[str, str] = {}
    for path, text in _files(host, BUS_NAMES, ".service", unread):
        for name in parse(text).get((_SECTION, "SystemdService"), [])[-1:]:
            if name.endswith(KINDS):
                found.setdefault(name, path)
    return found


def _template(name: str) -> str:
    """A name with a part that udev fills in ($name, %k) belongs to a template; without one it cannot be known."""
    if "$" not in name and "%" not in name:
        return name
    prefix, at, _ = name.partition("@")
    known = at and "$" not in prefix and "%" not in prefix
    return f"{prefix}@.{name.rpartition('.')[2]}" if known else ""


def _joined(text: str) -> Iterator[str]:
    """Rules, without comments; a backslash at the end continues one."""
    whole = ""
    for line in ended_lines(text):
        if not whole and line.lstrip().startswith("#"):
            continue
        whole += line.removesuffix("\\")
        if not line.endswith("\\"):
            yield whole
            whole = ""
    yield whole


def _files(host: Host, folders: tuple[str, ...], ending: str, unread: dict[str, str]) -> Iterator[tuple[str, str]]:
    found: dict[str, str] = {}
    for folder in folders:
        for name in _names(host, folder, unread):
            if name.endswith(ending):
                found.setdefault(name, f"{folder}/{name}")
    for path in found.values():
        try:
            yield path, host.read(path, most=MOST_BYTES)
        except Unreadable as error:
            if not is_off(host, path):
                unread[path] = error.why


def _names(host: Host, folder: str, unread: dict[str, str]) -> list[str]:
    """Of a folder that cannot be listed none: /lib may lead to one that was listed, so the gate judges that."""
    try:
        names, more = host.first_names(folder, MOST_NAMES)
    except Unreadable:
        return []
    if more or len(names) > MOST_FILES:
        unread[folder] = f"more than {MOST_FILES:,} names"
    return names[:MOST_FILES]


def is_off(host: Host, path: str) -> bool:
    """A link to /dev/null switches a rule, or a drop-in, of that name off."""
    try:
        return host.link(path) == "/dev/null"
    except Unreadable:
        return False
