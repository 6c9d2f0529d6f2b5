"""What machine or image this is: distribution, kernel and its known faults, cgroup mode, command line.

Only here is a kernel judged by its version: an image that is not running offers nothing else. Distributions backport
fixes, so a fault is reported as something to check.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from zombiescope.core import Host, Unreadable
from zombiescope.kernel.text import lines
from zombiescope.knowledge.kernels import Fault, faults, version_of

_RELEASES = ("/etc/os-release", "/usr/lib/os-release")
_MOST = 1 << 20  # bytes of any of these
_MODULES = ("/usr/lib/modules", "/lib/modules")
_TELLING = (
    "cgroup",
    "psi",
    "swapaccount",
    "systemd.unified_cgroup_hierarchy",
    "systemd.legacy_systemd_cgroup_controller",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    system: str  # "Ubuntu 20.04.6 LTS"; "" if unknown
    kernels: tuple[str, ...]  # the running one, or those installed in an image
    cgroups: str  # v1, v2, hybrid, or "" if none is mounted
    parameters: tuple[str, ...]  # of the kernel command line, those that affect cgroups

    @property
    def faults(self) -> list[Fault]:
        """Known faults of the oldest of the kernels, by its version."""
        versions = [version for kernel in self.kernels if (version := version_of(kernel)) is not None]
        return [fault for fault in faults() if versions and fault.is_in(min(versions))]


def facts(host: Host) -> Facts:
    return Facts(
        system=_system(host), kernels=_kernels(host), cgroups=_cgroups(host), parameters=tuple(_parameters(host))
    )


def _system(host: Host) -> str:
    for path in _RELEASES:
        said = dict(line.partition("=")[::2] for line in lines(_text(host, path)))
        name = said.get("PRETTY_NAME") or said.get("NAME", "")
        if name:
            return name.strip("\"'")
    return ""


def _kernels(host: Host) -> tuple[str, ...]:
    if runs := _text(host, "/proc/sys/kernel/osrelease").strip():
        return (runs,)
    for folder in _MODULES:
        try:
            return tuple(name for name in host.listing(folder) if version_of(name))
        except Unreadable:
            continue
    return ()


def _cgroups(host: Host) -> str:
    """By what is mounted, never guessed."""
    kinds = {line.partition(" - ")[2].partition(" ")[0] for line in lines(_text(host, "/proc/self/mountinfo"))}
    has = (("cgroup" in kinds), ("cgroup2" in kinds))
    return {(True, False): "v1", (False, True): "v2", (True, True): "hybrid"}.get(has, "")


def _parameters(host: Host) -> list[str]:
    text = _text(host, "/proc/cmdline")
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that does not end
        words = text.split()
    return [word for word in words if word.partition("=")[0].startswith(_TELLING)]


def _text(host: Host, path: str) -> str:
    try:
        return host.read(path, most=_MOST)
    except Unreadable:
        return ""
