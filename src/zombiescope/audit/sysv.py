"""SysV scripts that systemd starts as services: systemd-sysv-generator(8).

A script in /etc/init.d becomes NAME.service unless a unit of that name exists; a link S??NAME in /etc/rc2.d to rc4.d
makes multi-user.target want it, one in rc5.d graphical.target.
"""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Iterator
from contextlib import suppress

from zombiescope.core import Host, Unreadable

# Debian's place, and Red Hat's.
SCRIPTS = ("/etc/init.d", "/etc/rc.d/init.d")
_LEVELS = {"rc2.d": "multi-user.target", "rc3.d": "multi-user.target", "rc4.d": "multi-user.target"}
_LEVELS["rc5.d"] = "graphical.target"
_PLACES = ("/etc", "/etc/rc.d")
SETTINGS = "[Unit]\nDescription=SysV script\n[Service]\nType=forking\nRestart=no\n"  # as the generator writes them


def scripts(host: Host) -> dict[str, str]:
    """The path of each script by the name of its service."""
    found: dict[str, str] = {}
    for folder in SCRIPTS:
        for name in _names(host, folder):
            path = f"{folder}/{name}"
            if _is_program(host, path):
                found.setdefault(f"{name.removesuffix('.sh')}.service", path)
    return found


def links(host: Host) -> Iterator[tuple[str, str]]:
    """(target, service) for every script that a runlevel starts."""
    for place in _PLACES:
        for level, target in _LEVELS.items():
            for name in _names(host, f"{place}/{level}"):
                if len(name) > 3 and name[0] == "S" and name[1:3].isdecimal():
                    yield target, f"{name[3:].removesuffix('.sh')}.service"


def _is_program(host: Host, path: str) -> bool:
    for _ in range(8):  # links to other scripts; bounded, so no loops
        status = None
        with suppress(Unreadable):
            status = host.status(path)
        if status is None:
            break
        if not stat.S_ISLNK(status.st_mode):
            return stat.S_ISREG(status.st_mode) and bool(status.st_mode & stat.S_IXUSR)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), host.link(path)))
    return False


def _names(host: Host, folder: str) -> list[str]:
    try:
        return host.listing(folder)
    except Unreadable:
        return []
