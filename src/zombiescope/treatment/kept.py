"""The state of files before a change, and the commands that restore it, byte for byte.

What is kept is small and stored as JSON: unit files, links, kernel settings. Nothing is written here: undo runs the
commands.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterable, Mapping
from typing import Any

from zombiescope.core.errors import Unreadable
from zombiescope.core.host import Host

State = dict[str, Any]  # kind, and its content or attributes
Command = tuple[tuple[str, ...], bytes]  # argv, and stdin
ABSENT: State = {"kind": "absent"}
MOST_BYTES = 1 << 20  # a unit file has a few KB
_KERNEL = ("/proc/", "/sys/")  # these files are written to, never replaced; their owner is not kept


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
    if path.startswith(_KERNEL):
        return {"kind": "setting", "content": content}
    return {"kind": "file", "content": content} | owned


def restoring(before: Mapping[str, State], now: Mapping[str, State]) -> list[Command]:
    """The commands that turn `now` into `before`: first remove what is new, then restore what is gone or changed."""
    commands: list[Command] = []
    # The deepest first: a folder can be removed once it is empty.
    for path, state in sorted(now.items(), reverse=True):
        was = before.get(path, ABSENT)
        if state["kind"] != "absent" and was["kind"] not in (state["kind"], "setting"):
            commands.append(((("rmdir",) if state["kind"] == "folder" else ("rm", "-f", "--")) + (path,), b""))
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


def unit_files(host: Host, unit: str) -> list[str]:
    """Where an administrator's settings of a unit are, or would be: its file or mask, drop-ins, .wants links.

    Only folders that administrators and `systemctl` write to; files of packages are never changed.
    """
    if not unit or "/" in unit or unit in (".", ".."):
        raise Unreadable(unit or "(no unit)", "not the name of a unit")
    paths = []
    for top in ("/etc/systemd/system", "/run/systemd/system", "/etc/systemd/system.control"):
        paths += [f"{top}/{unit}", f"{top}/{unit}.d"]
        try:
            names = host.listing(top)
        except Unreadable:
            continue
        for name in names:
            path = f"{top}/{name}"
            if name.endswith((".wants", ".requires", ".upholds")):
                paths.append(f"{path}/{unit}")
            elif _links_to(host, path, unit):  # an alias: `systemctl disable` removes it too
                paths.append(path)
    return list(dict.fromkeys(paths))


def _links_to(host: Host, path: str, unit: str) -> bool:
    status = host.status(path)
    return status is not None and stat.S_ISLNK(status.st_mode) and os.path.basename(host.link(path)) == unit
