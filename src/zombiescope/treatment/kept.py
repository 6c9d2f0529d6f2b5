"""The state of files before a change, and the commands that restore it, byte for byte.

What is kept is small and stored as JSON: unit files, links, kernel settings. Nothing is written here: undo runs the
commands.
"""

from __future__ import annotations

import base64
import re
import stat
from collections.abc import Iterable, Mapping
from typing import Any

from zombiescope.core.errors import Unreadable
from zombiescope.core.host import Host

State = dict[str, Any]  # kind, and its content or attributes
Command = tuple[tuple[str, ...], bytes]  # argv, and stdin
ABSENT: State = {"kind": "absent"}
MOST_BYTES = 1 << 20  # a unit file has a few KB
MOST_LINKS = 20_000  # a node has a few hundred
TOPS = ("/etc/systemd/system", "/run/systemd/system", "/etc/systemd/system.control")
# Of a unit that has a SysV script too, `systemctl disable` turns S01name into K01name here (systemd-sysv-install).
RUNLEVELS = tuple(f"/etc/rc{level}.d" for level in "0123456S")
DEPENDENCIES = (".wants", ".requires", ".upholds")
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,255}(?<=[a-z])", re.ASCII)  # what systemd accepts: never a slash
_KERNEL = ("/proc/", "/sys/")  # these files are written to, never replaced; their owner is not kept


# A folder that somebody has put something into since is left.
_RMDIR = ("rmdir", "--ignore-fail-on-non-empty", "--")


def kept(host: Host, paths: Iterable[str]) -> dict[str, State]:
    """The state of each path; of a folder also of everything in it."""
    found: dict[str, State] = {}
    for path in paths:
        found[path] = state = _state(host, path)
        if state["kind"] == "folder":
            found |= kept(host, [f"{path}/{name}" for name in host.listing(path)])
    return found


def _state(host: Host, path: str) -> State:
    status = host.status(path)
    if status is None:
        return ABSENT
    if stat.S_ISLNK(status.st_mode):
        return {"kind": "link", "to": host.link(path)}
    owned = {"mode": stat.S_IMODE(status.st_mode), "uid": status.st_uid, "gid": status.st_gid}
    if stat.S_ISDIR(status.st_mode):
        return {"kind": "folder"} | owned
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable(path, "neither a file, a folder nor a link: left alone")
    content = base64.b64encode(host.read_bytes(path, most=MOST_BYTES)).decode()
    if is_setting(path):
        return {"kind": "setting", "content": content}
    return {"kind": "file", "content": content} | owned


def is_setting(path: str) -> bool:
    return path.startswith(_KERNEL)


def restoring(before: Mapping[str, State], now: Mapping[str, State]) -> list[Command]:
    """The commands that turn `now` into `before`: first remove what is new, then restore what is gone or changed."""
    commands: list[Command] = []
    # The deepest first: a folder can be removed once it is empty.
    for path, state in sorted(now.items(), reverse=True):
        was = before.get(path, ABSENT)
        if state["kind"] != "absent" and was["kind"] not in (state["kind"], "setting"):
            commands.append(((_RMDIR if state["kind"] == "folder" else ("rm", "-f", "--")) + (path,), b""))
    for path, state in sorted(before.items()):
        if state != now.get(path, ABSENT) and state["kind"] != "absent":
            commands.append(_making(path, state))
    return commands


def _making(path: str, state: State) -> Command:
    content = base64.b64decode(state.get("content", ""))
    if state["kind"] == "link":
        return ("ln", "-sfnT", "--", state["to"], path), b""
    if state["kind"] == "setting":
        return ("tee", path), content
    owner = ("-m", f"{state['mode']:o}", "-o", str(state["uid"]), "-g", str(state["gid"]))
    if state["kind"] == "folder":
        return ("install", "-d", *owner, path), b""
    return ("install", *owner, "-T", "/dev/stdin", path), content


def changed(one: Mapping[str, State], other: Mapping[str, State]) -> list[str]:
    """Paths whose state differs."""
    return sorted(path for path in one.keys() | other.keys() if one.get(path, ABSENT) != other.get(path, ABSENT))


def unit_files(unit: str) -> list[str]:
    """Where an administrator's settings of a unit are, or would be: its file or mask, and its drop-ins.

    Only folders that administrators and `systemctl` write to; files of packages are never changed.
    """
    if not _UNIT.fullmatch(unit):
        raise Unreadable(unit or "(no unit)", "not the name of a unit")
    return [path for top in TOPS for path in (f"{top}/{unit}", f"{top}/{unit}.d")]


def link_farm(host: Host) -> dict[str, State]:
    """Every link that `systemctl` made, and the folders that it makes for them: an `Also=` or an alias of one unit
    removes links of others, and a folder that is empty then."""
    found: dict[str, State] = {}
    for top in (*TOPS, *RUNLEVELS):
        for name in _names(host, top):
            path = f"{top}/{name}"
            state = _link(host, path)
            if name.endswith(DEPENDENCIES) and state["kind"] == "folder":
                inside = {f"{path}/{it}": _link(host, f"{path}/{it}") for it in _names(host, path)}
                found |= {path: state} | {it: link for it, link in inside.items() if link["kind"] == "link"}
            elif state["kind"] == "link":
                found[path] = state
            if len(found) > MOST_LINKS:
                raise Unreadable(top, f"more than {MOST_LINKS:,} links")
    return found


def _names(host: Host, folder: str) -> list[str]:
    return host.listing(folder) if host.status(folder) is not None else []


def _link(host: Host, path: str) -> State:
    """Of what is no link nor folder only that: units of others are not read."""
    status = host.status(path)
    if status is not None and (stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return _state(host, path)
    return {"kind": "other"}
