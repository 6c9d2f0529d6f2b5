"""Whether a node needs a unit: what must not be stopped by mistake, with the reason.

The list of units is data (knowledge/units.toml). What cannot be checked counts as in use: a wrong refusal costs one
more option on the command line, a wrong stop costs the node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing

from zombiescope.audit.systemd import Systemd, address_for
from zombiescope.core import Host, Unreadable
from zombiescope.knowledge.units import Units, never_stop

# The process that supervises each container: it holds the terminal and waits for the exit.
_SHIMS = re.compile(r"containerd-shim|docker-containe|conmon|crun|runc")
_UNIT = re.compile(r"/([^/\n]+\.(?:service|scope))(?=/|$)", re.MULTILINE)


def why_essential(unit: str, host: Host) -> str:
    """Why a unit must not be stopped or changed; empty if it may be. `host` is the system that runs it."""
    needed = never_stop(unit)
    if always := next((it for it in needed if not it.only_while), None):
        return always.why
    if unit in _own_units(host):
        return "this command runs in it"
    return next((it.why for it in needed if _holds(it, unit, host)), "")


def _holds(needed: Units, unit: str, host: Host) -> bool:
    if needed.only_while == "containers_run":
        return _containers(host)
    return not _other_ways(unit, needed, host)


def _own_units(host: Host) -> set[str]:
    """The units this process runs in: an agent that provides our shell must not be stopped from within it."""
    try:
        return set(_UNIT.findall(host.read("/proc/self/cgroup")))
    except Unreadable:
        return set()


def _containers(host: Host) -> bool:
    try:
        pids = host.pids()
    except Unreadable:
        return True
    for pid in pids:
        try:
            if _SHIMS.match(host.read(f"/proc/{pid}/comm")):
                return True
        except Unreadable:
            continue  # it has exited
    return False


def _other_ways(unit: str, group: Units, host: Host) -> bool:
    try:
        with closing(Systemd(address_for(host))) as systemd:
            return others_open(unit, {it.name: it.active for it in systemd.units(*group.units)})
    except Unreadable:
        return False


def others_open(unit: str, states: Mapping[str, str]) -> bool:
    """Whether another way in than this unit runs. ssh.service and ssh.socket are one way, not two."""
    name = unit.rpartition(".")[0]
    running = [it for it, state in states.items() if state in ("active", "activating")]
    return any(it.rpartition(".")[0] != name for it in running)
