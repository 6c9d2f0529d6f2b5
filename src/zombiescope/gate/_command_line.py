"""The kernel command lines of an image, wherever its boot loader or its tools keep them.

GRUB (its configuration, its snippets, grubenv), boot loader entries (systemd-boot, GRUB, ostree), kernel-install,
extlinux and U-Boot, bootc's kargs.d, the .cmdline section of unified kernel images; or what --cmdline says.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator

from zombiescope.audit.pe_sections import section
from zombiescope.core import Blind, Host, Unreadable
from zombiescope.kernel.text import lines

MOST_BYTES = 1 << 20  # of one boot loader's file; the largest grub.cfg in use have some hundred kilobytes
MOST_FILES = 200  # boot entries and grub snippets of one image; a dozen is usual
GIVEN = "--cmdline"
ABSENT = ("no such file or directory", "not a directory")
_PLAIN = ("/etc/kernel/cmdline", "/usr/lib/kernel/cmdline")
_FILES = (
    *("/etc/default/grub", "/etc/default/u-boot", "/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"),
    *("/boot/grub/grubenv", "/boot/grub2/grubenv", "/boot/extlinux/extlinux.conf", "/extlinux/extlinux.conf"),
    *("/boot/extlinux.conf", "/boot/syslinux/syslinux.cfg", "/boot/efi/EFI/BOOT/grub.cfg"),
)
_PLACES = ("/boot", "/boot/efi", "/efi")
# A folder, and how the names of its files end. ostree keeps two generations of entries, and a link to one of them.
FOLDERS = {
    "/etc/default/grub.d": ".cfg",
    **{f"{place}/loader/entries": ".conf" for place in _PLACES},
    **{f"/boot/loader.{number}/entries": ".conf" for number in (0, 1)},
    "/usr/lib/bootc/kargs.d": ".toml",
    **{f"{place}/EFI/Linux": ".efi" for place in _PLACES},
    **{f"{place}/loader/addons": ".efi" for place in _PLACES},
}
# GRUB_CMDLINE_LINUX="…", options … of a boot entry, linux /boot/vmlinuz … of grub.cfg, append … of extlinux.
_LINES = re.compile(
    r"^[ \t]*(?:(?:GRUB_CMDLINE_LINUX\w{0,20}|U_BOOT_PARAMETERS|kernelopts)="
    r"|(?:options|linux(?:16|efi)?|append)[ \t])(.*)$",
    re.MULTILINE | re.IGNORECASE,
)


def command_lines(host: Host, given: str | None = None) -> tuple[dict[str, list[str]], list[Blind]]:
    """The words of each command line, by file, and files that exist and cannot be read.

    On a running machine, the one it was booted with.
    """
    if host.live:
        return {"/proc/cmdline": _words(host.read("/proc/cmdline", most=MOST_BYTES))}, []
    found = {} if given is None else {GIVEN: _words(given)}
    unseen: list[Blind] = []
    for path in _paths(host, unseen):
        try:
            said = list(_said(host, path))
        except Unreadable as error:
            if error.why not in ABSENT:
                unseen.append(Blind(what="command line", source=path, why=error.why))
            continue
        if said:
            found[path] = [word for line in said for word in _words(line)]
    return found, unseen


def unified_kernels(host: Host) -> dict[str, str]:
    """The releases of unified kernel images, and where they are."""
    found = {}
    for path in _paths(host, []):
        if path.endswith(".efi"):
            try:
                release = section(host, path, ".uname")
            except Unreadable:  # the command line's rule reports it
                continue
            if release:
                found[release] = path
    return found


def _paths(host: Host, unseen: list[Blind]) -> Iterator[str]:
    yield from (*_PLAIN, *_FILES)
    for folder, ending in FOLDERS.items():
        try:
            names = [name for name in host.listing(folder) if name.endswith(ending)]
        except Unreadable as error:
            if error.why not in ABSENT:
                unseen.append(Blind(what="folder", source=folder, why=error.why))
            continue
        yield from (f"{folder}/{name}" for name in names[:MOST_FILES])
        if len(names) > MOST_FILES:
            unseen.append(Blind(what="command line", source=folder, why=f"more than {MOST_FILES} files"))


def _said(host: Host, path: str) -> Iterator[str]:
    if path.endswith(".efi"):
        if said := section(host, path, ".cmdline"):
            yield said
        return
    text = host.read(path, most=MOST_BYTES)
    if path in _PLAIN:
        yield text
    elif path.endswith(".toml"):
        yield from _arguments(path, text)
    else:
        yield from _LINES.findall(text)


def _arguments(path: str, text: str) -> Iterator[str]:
    """The kargs of one file of bootc; for whatever machine they are meant, some node may be one."""
    try:
        kargs = tomllib.loads(text).get("kargs", [])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Unreadable(path, "not valid TOML") from error
    if not isinstance(kargs, list) or not all(isinstance(it, str) for it in kargs):
        raise Unreadable(path, "kargs is not a list of texts")
    yield from kargs


def _words(text: str) -> list[str]:
    try:
        return [word for part in shlex.split(text, comments=True) for word in part.split()]
    except ValueError:  # a quote that does not end
        return " ".join(lines(text)).replace('"', " ").split()
