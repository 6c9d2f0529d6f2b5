"""The kernel command line of this image forces a cgroup mode that hides or worsens dying cgroups.

Why it matters: cgroup v1 has memory.numa_stat, whose read walks every dying cgroup before Linux 5.8, and v1 does not
    count dying cgroups; systemd 258 no longer supports it. Without the memory controller nothing is charged: no
    memory limit works, and no leak has an owner.
Passes: a command line that does not mention cgroups, or asks for v2. v1 is an error with a kernel before 5.8, else a
    note. The root of a container, without kernel and boot loader, has none: the rule does not apply.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection
from zombiescope.knowledge.kernels import fault, version_of

WHEN = ("image", "look", "soak")
_OFF, _ON = (
    ("0", "no", "n", "f", "false", "off"),
    ("", "1", "yes", "y", "t", "true", "on"),
)  # parse_boolean() of systemd


def unfit(image: Image) -> str:
    return image.kernelless


def look(image: Image) -> Iterator[Objection | Blind]:
    said, unseen = image.command_lines
    yield from unseen
    if not said:
        why = "no kernel command line in this root: say it with --cmdline"
        yield Blind(what="command line", source="/etc/default/grub, /boot/loader/entries", why=why)
    for where, words in said.items():
        yield from _objections(image, where, words)


def saw(image: Image) -> str:
    said, _ = image.command_lines
    return f"kernel command lines in {', '.join(said) or 'no file'}"


def _objections(image: Image, where: str, words: list[str]) -> Iterator[Objection]:
    settings = dict(word.partition("=")[::2] for word in words)
    for word in words:
        name, _, value = word.partition("=")
        if name == "cgroup_disable" and "memory" in value.split(","):
            yield _objection(
                word, where, "the memory controller is off: no memory limit works, and no leak has an owner"
            )
    legacy = settings.get("systemd.legacy_systemd_cgroup_controller", "off") in _ON
    unified = settings.get("systemd.unified_cgroup_hierarchy", "on")
    if unified in _OFF or legacy:
        name = "systemd.unified_cgroup_hierarchy" if unified in _OFF else "systemd.legacy_systemd_cgroup_controller"
        walk = fault("numa_stat_walk")
        boots = [it for it in image.kernels if it not in image.left_over]
        old = [it for it in boots if walk.is_in(version_of(it) or walk.fixed)]
        says = "forces cgroup v1, which does not count dying cgroups"
        walks = (
            f", and {', '.join(old)} walks every one of them at each read of the root's memory.numa_stat" if old else ""
        )
        yield _objection(f"{name}={settings[name]}", where, says + walks, "error" if old else "note")


def _objection(word: str, where: str, says: str, level: str = "error") -> Objection:
    return Objection(
        subject=f"parameter:{word}",
        says=says,
        where=where,
        level=level,
        fix=(f"remove {word} from the kernel command line",),
    )
