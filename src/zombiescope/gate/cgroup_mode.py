"""The kernel command line of this image forces a cgroup mode that hides or worsens dying cgroups.

Why it matters: cgroup v1 has memory.numa_stat, whose read walks every dying cgroup before Linux 5.8, and v1 does not
    count dying cgroups; systemd 258 no longer supports it. Without the memory controller nothing is charged: no
    memory limit works, and no leak has an owner.
Passes: a command line that does not mention cgroups, or asks for v2. v1 is an error with a kernel before 5.8, else a
    note.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from zombiescope.core import Blind, Unreadable
from zombiescope.gate._image import ABSENT, Image
from zombiescope.gate._objection import Objection
from zombiescope.kernel.text import lines
from zombiescope.knowledge.kernels import fault, version_of

WHEN = ("image", "look", "soak")
MOST_BYTES = 1 << 20  # of one boot loader's file; the largest grub.cfg in use have some hundred kilobytes
MOST_FILES = 200  # boot entries and grub snippets of one image; a dozen is usual
_FILES = ("/etc/default/grub", "/etc/kernel/cmdline", "/boot/grub/grub.cfg", "/boot/grub2/grub.cfg")
_FOLDERS = ("/etc/default/grub.d", "/boot/loader/entries", "/boot/efi/loader/entries", "/efi/loader/entries")
# GRUB_CMDLINE_LINUX="…", options … of a boot entry, linux /boot/vmlinuz … of grub.cfg.
_LINES = re.compile(r"^[ \t]*(?:GRUB_CMDLINE_LINUX\w{0,20}=|options[ \t]|linux(?:16|efi)?[ \t])(.*)$", re.MULTILINE)
_OFF, _ON = (
    ("0", "no", "n", "f", "false", "off"),
    ("", "1", "yes", "y", "t", "true", "on"),
)  # parse_boolean() of systemd


def look(image: Image) -> Iterator[Objection | Blind]:
    said, unseen = command_lines(image)
    yield from unseen
    if not said:
        where = ", ".join((*_FILES[:1], *_FOLDERS[1:2]))
        yield Blind(what="command line", source=where, why="no kernel command line in this root")
    for where, words in said.items():
        yield from _objections(image, where, words)


def saw(image: Image) -> str:
    said, _ = command_lines(image)
    return f"kernel command lines in {', '.join(said) or 'no file'}"


def command_lines(image: Image) -> tuple[dict[str, list[str]], list[Blind]]:
    """The words of each, by file, and files that exist and cannot be read.

    On a running machine, the one it was booted with.
    """
    if image.host.live:
        return {"/proc/cmdline": _words(image.host.read("/proc/cmdline", most=MOST_BYTES))}, []
    found, unseen = {}, list(image.unread(*_FOLDERS))
    entries = [f"{folder}/{name}" for folder in _FOLDERS for name in image.names(folder)[:MOST_FILES]]
    for path in (*_FILES, *(it for it in entries if it.endswith((".cfg", ".conf")))):
        try:
            text = image.host.read(path, most=MOST_BYTES)
        except Unreadable as error:
            if error.why not in ABSENT:
                unseen.append(Blind(what="command line", source=path, why=error.why))
            continue
        said = [text] if path == _FILES[1] else _LINES.findall(text)
        if said:
            found[path] = [word for line in said for word in _words(line)]
    return found, unseen


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
        old = [it for it in image.kernels if walk.is_in(version_of(it) or walk.fixed)]
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


def _words(text: str) -> list[str]:
    try:
        return [word for part in shlex.split(text, comments=True) for word in part.split()]
    except ValueError:  # a quote that does not end
        return " ".join(lines(text)).replace('"', " ").split()
