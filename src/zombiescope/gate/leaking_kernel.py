"""A kernel of this image turns dead cgroups into lost time.

Why it matters: before Linux 5.8 a read of a root's statistics walks every dead cgroup, on one core, without a pause:
    with 70,000 of them for 5 s, and the network driver resets itself. Later ones still keep dead cgroups, up to 7.1.
Passes: kernels of 5.8 and newer, with a note below 7.1. Distributions carry fixes back; where one is known to (Red
    Hat's), a version proves nothing and is a note too. Every kernel that is installed is judged, since any may boot.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import resources

from zombiescope.audit.facts import version_of
from zombiescope.audit.packages import owners
from zombiescope.core import Blind, Unreadable
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection

WHEN = ("image", "look", "soak")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    until: str
    level: str
    says: str
    cure: str
    since: str = "0.0"

    def in_kernel(self, version: tuple[int, int]) -> bool:
        return (version_of(self.since) or (0, 0)) <= version < (version_of(self.until) or (0, 0))


def look(image: Image) -> Iterator[Objection | Blind]:
    found = image.kernels
    yield from image.unread("/boot")
    if not found:
        yield Blind(what="kernel", source="/boot", why="no kernel in this root: neither /boot/vmlinuz-* nor modules")
    faults, carried_back = matrix()
    for release, where in found.items():
        version = version_of(release)
        if version is None:
            yield Blind(what="kernel", source=where, why=f"{release} is not a version")
            continue
        carries = any(fnmatchcase(release, pattern) for pattern in carried_back)
        package = _package(image, where)
        for fault in faults:
            if fault.in_kernel(version):
                doubt = ", unless its distribution carried the fix back" if fault.level == "error" else ""
                yield Objection(
                    subject=f"kernel:{release}",
                    says=f"{package}older than {fault.until}: {fault.says}{doubt} ({fault.cure})",
                    where=where,
                    level="note" if carries else fault.level,
                    fix=(f"a kernel of {fault.until} or newer, or one with that fix",),
                )


def saw(image: Image) -> str:
    return ", ".join(image.kernels) or "no kernel"


@lru_cache(maxsize=1)
def matrix() -> tuple[tuple[Fault, ...], tuple[str, ...]]:
    table = tomllib.loads(resources.files("zombiescope.gate").joinpath("kernels.toml").read_text(encoding="utf-8"))
    return tuple(Fault(**it) for it in table["fault"]), tuple(table["carried_back"])


def _package(image: Image, where: str) -> str:
    try:
        owner = owners(image.host, [where]).get(where)
    except Unreadable:
        return ""
    return f"package {owner.package}, " if owner else ""
