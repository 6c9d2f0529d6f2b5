"""A kernel of this image spends CPU time on dying cgroups.

Why it matters: before Linux 5.8 a read of the root's memory.numa_stat walks every dying cgroup, on one core, without a
    pause: 5 s with 70,000 of them, and the NIC driver resets. Newer kernels still keep dying cgroups, up to 7.1.
Passes: kernels of 5.8 and newer, with a note below 7.1. Distributions backport fixes; where one is known to (Red
    Hat's), the version proves nothing and is a note too. Every installed kernel is checked, since any may boot; a
    folder of modules whose kernel image is gone, beside one that is there, is a note. The root of a container has none.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.audit.packages import owners
from zombiescope.core import Blind, Unreadable
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection
from zombiescope.knowledge.kernels import carries_fixes_back, faults, version_of

WHEN = ("image", "look", "soak")


def unfit(image: Image) -> str:
    return image.kernelless


def look(image: Image) -> Iterator[Objection | Blind]:
    found = image.kernels
    yield from image.unread("/boot")
    if not found:
        yield Blind(what="kernel", source="/boot", why="no kernel found: neither /boot/vmlinuz-* nor /usr/lib/modules")
    for release, where in found.items():
        version = version_of(release)
        if version is None:
            yield Blind(what="kernel", source=where, why=f"{release} is not a kernel version")
            continue
        package = _package(image, where)
        if release in image.left_over:
            yield Objection(
                subject=f"kernel:{release}",
                says=f"{package}modules without a kernel image: left over, and this kernel cannot be booted from here",
                where=where,
                level="note",
                fix=(f"remove {where}",),
            )
        for fault in faults():
            if fault.level and fault.is_in(version):
                doubt = ", unless its distribution backported the fix" if fault.level == "error" else ""
                yield Objection(
                    subject=f"kernel:{release}",
                    says=f"{package}older than {fault.version}: {fault.fault}{doubt} ({fault.commit})",
                    where=where,
                    level="note" if release in image.left_over or carries_fixes_back(release) else fault.level,
                    fix=(f"install a kernel of {fault.version} or newer, or one with that fix",),
                )


def saw(image: Image) -> str:
    return ", ".join(image.kernels) or "no kernel"


def _package(image: Image, where: str) -> str:
    try:
        owner = owners(image.host, [where]).get(where)
    except Unreadable:
        return ""
    return f"package {owner.package}, " if owner else ""
