"""Is an agent used on this node? Every sign of use is checked and kept; "unused" needs all of them to be absent.

A sign that could not be checked makes the answer "cannot tell". So does an image that is not running if the sign is a
process or a cgroup. Essential units are never called unused, nor are those whose use leaves no trace on the node.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from zombiescope.audit.running import running
from zombiescope.core import Host, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.core.host import MOST_NAMES
from zombiescope.kernel.text import lines
from zombiescope.knowledge.agents import Agent, SignOfUse

MOST_BYTES = 4 << 20  # of a configuration file or socket table; a hostile one is not read to its end
MOST_CGROUPS = 20_000  # cgroups walked once for all agents, 3 µs each
_MOUNTINFO, _TCP = "/proc/self/mountinfo", ("/proc/net/tcp", "/proc/net/tcp6")
_CGROUPS = "/sys/fs/cgroup"
_ESTABLISHED = "01"  # enum in include/net/tcp_states.h
_ABSENT = ("no such file or directory", "not a directory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The result for one sign of use; `held` is None if it could not be checked."""

    sign: SignOfUse
    held: bool | None
    source: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """All signs that were checked for one unit."""

    seen: tuple[Seen, ...]
    needed_by: tuple[str, ...] = ()
    answer: str = ""  # "used", "unused", "cannot tell"
    says: str = ""


class Usage:
    """Checks one machine for signs of use; what several signs need is read once."""

    def __init__(self, host: Host, active: Mapping[str, str] | None) -> None:
        """`active` is the state of each loaded unit (active, activating …); None if systemd does not answer."""
        self._host, self._active = host, active
        self._paths: list[str] | Unreadable | None = None

    def of(self, agent: Agent, needed_by: Sequence[str], *, wanted: bool) -> Use:
        """`wanted`: the unit is enabled, runs, or tries to; a disabled one is not called unused."""
        seen = tuple(self._look(sign) for sign in agent.use)
        held = [it for it in seen if it.held]
        unseen = [it for it in seen if it.held is None]
        if held:
            answer, says = "used", "; ".join(it.says for it in held)
        elif needed_by:
            answer, says = "used", f"needed by {', '.join(needed_by)}"
        elif unseen:
            answer, says = "cannot tell", "; ".join(dict.fromkeys(it.says for it in unseen))
        elif not agent.claim or not seen:
            answer, says = "cannot tell", "its use leaves no trace on the node"
        elif not wanted:
            answer, says = "cannot tell", "neither enabled nor running"
        else:
            answer, says = "unused", f"none of {len(seen)} signs of use is present, and no active unit needs it"
        return Use(seen=seen, needed_by=tuple(needed_by), answer=answer, says=says)

    def cgroups(self) -> list[str]:
        """All cgroup paths of the node; walked once."""
        if self._paths is None:
            try:
                self._paths = self._walked()
            except Unreadable as error:
                self._paths = error
        if isinstance(self._paths, Unreadable):
            raise self._paths
        return self._paths

    def _look(self, sign: SignOfUse) -> Seen:
        try:
            held, source = getattr(self, f"_{sign.kind}")(sign)
        except Unreadable as error:
            if error.why in _ABSENT and error.source == sign.path:
                return Seen(sign=sign, held=False, source=error.source, says=f"absent: {sign.says}")
            return Seen(sign=sign, held=None, source=error.source, says=f"not checked ({error}): {sign.says}")
        return Seen(sign=sign, held=held, source=source, says=sign.says if held else f"absent: {sign.says}")

    def _file_exists(self, sign: SignOfUse) -> tuple[bool, str]:
        folder, _, name = sign.path.rpartition("/")
        try:
            return name in self._host.listing(folder), sign.path
        except Unreadable as error:
            raise Unreadable(sign.path, error.why) from error

    def _file_contains(self, sign: SignOfUse) -> tuple[bool, str]:
        text = self._host.read(sign.path, most=MOST_BYTES)
        return re.search(sign.pattern, text, re.MULTILINE) is not None, shown_by("grep", "-P", sign.pattern, sign.path)

    def _folder_filled(self, sign: SignOfUse) -> tuple[bool, str]:
        names, more = self._host.first_names(sign.path, MOST_NAMES)
        held = bool(fnmatch.filter(names, sign.pattern or "*"))
        if more and not held:
            raise Unreadable(sign.path, f"more than {MOST_NAMES:,} names in it")
        return held, sign.path

    def _cgroup_exists(self, sign: SignOfUse) -> tuple[bool, str]:
        return bool(fnmatch.filter(self.cgroups(), sign.pattern)), _CGROUPS

    def _process_running(self, sign: SignOfUse) -> tuple[bool, str]:
        if not self._host.pids():
            raise Unreadable("/proc", "processes exist on a running node only")
        return next(running(self._host, sign.names), None) is not None, shown_by("pgrep", "-l", "|".join(sign.names))

    def _unit_active(self, sign: SignOfUse) -> tuple[bool, str]:
        source = shown_by("systemctl", "is-active", sign.pattern)
        if self._active is None:
            raise Unreadable(source, "systemd does not answer")
        found = fnmatch.filter(self._active, sign.pattern)
        return any(self._active[name] in ("active", "activating", "reloading") for name in found), source

    def _port_connected(self, sign: SignOfUse) -> tuple[bool, str]:
        port = f":{sign.port:04X}"
        rows = lines(self._host.read(_TCP[0], most=MOST_BYTES))
        with suppress(Unreadable):  # a kernel without IPv6 has no tcp6
            rows += lines(self._host.read(_TCP[1], most=MOST_BYTES))
        columns = [row.split() for row in rows]
        held = any(len(it) > 3 and it[1].endswith(port) and it[3] == _ESTABLISHED for it in columns)
        return held, f"$ ss -tn sport = :{sign.port}"

    def _walked(self) -> list[str]:
        """The paths in the hierarchy of the memory controller, and in v2."""
        if not self._host.live:
            raise Unreadable(_CGROUPS, "cgroups exist on a running node only")
        places = {}
        for line in lines(self._host.read(_MOUNTINFO)):
            before, _, after = line.partition(" - ")
            kind, options = after.partition(" ")[0], after.rpartition(" ")[2].split(",")
            if kind == "cgroup2" or (kind == "cgroup" and "memory" in options):
                places[kind] = before.split(" ")[4]
        if not places:
            raise Unreadable(_MOUNTINFO, "no cgroup hierarchy is mounted")
        return [path for place in places.values() for path in self._host.tree(place, most=MOST_CGROUPS)]
