"""What the rules check: an image, or a running machine, and the lists that people keep for it.

Everything is read once, when a rule first needs it. A file that exists and cannot be read is reported as blind: a rule
that ignored it would pass what it never read.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from posixpath import basename, dirname, join, normpath, split
from typing import TYPE_CHECKING

from zombiescope.audit import presets
from zombiescope.audit.activation import BUS_NAMES, RULES, by_bus
from zombiescope.audit.essential import Essential, essential
from zombiescope.audit.facts import Facts, facts
from zombiescope.audit.survey import Survey, survey
from zombiescope.audit.unit_file import UnitFile
from zombiescope.audit.unit_files import FOLDERS, HELD, MANAGER, UnitFiles
from zombiescope.core import Blind, Case, Host, Unreadable
from zombiescope.gate._command_line import ABSENT, command_lines, unified_kernels
from zombiescope.knowledge.kernels import version_of

if TYPE_CHECKING:
    from zombiescope.core.timeline import Timeline
    from zombiescope.gate._lists import Allowance

AGAIN = 2.0  # seconds between two reads of the restart counters of a running machine
_KINDS = (".service", ".socket", ".timer", ".path")  # of unit that make something run
_STRANGE = "a link to a file of another name, outside the unit folders"
_HELD = (*HELD, ".d")  # folders whose content says what starts, and how
# Folders whose files say what starts, or how.
_SAY = (
    *(*FOLDERS, *presets.FOLDERS, *RULES, *BUS_NAMES),
    *(place for file in MANAGER for place in (dirname(file), f"{file}.d")),
)
_KERNELS = ("vmlinuz-", "vmlinux-", "kernel-", "Image-")
_MODULES = "/usr/lib/modules"
_MOST_LINKS = 40  # as the kernel follows (MAXSYMLINKS in include/linux/namei.h)


class Image:
    """One image or machine. `allowed` says which units may start; None without an allow-list."""

    def __init__(
        self,
        host: Host,
        *,
        allowed: Sequence[Allowance] | None = None,
        today: date | None = None,
        most_cgroups: int = 1000,
        timeline: Timeline | None = None,
        case: Case | None = None,
        cmdline: str | None = None,
    ) -> None:
        """`timeline` holds the samples of a running machine, `case` what the signs found in them during a soak.

        `cmdline` is the kernel command line that an image will be booted with, where its files do not say.
        """
        self._cmdline = cmdline
        self.today = today or datetime.now(UTC).date()
        self.host, self.allowed, self.most_cgroups = host, allowed, most_cgroups
        self.timeline, self.case = timeline, case

    @property
    def occasion(self) -> str:
        """One of OCCASIONS."""
        return "soak" if self.case is not None else "look" if self.host.live else "image"

    @cached_property
    def files(self) -> UnitFiles:
        return UnitFiles(self.host)

    @cached_property
    def survey(self) -> Survey:
        """Every service in one row; a running machine is read twice, so that restarts show."""
        return survey(self.host, again=AGAIN if self.host.live else 0.0)

    @cached_property
    def facts(self) -> Facts:
        return facts(self.host)

    @cached_property
    def starting(self) -> list[UnitFile]:
        """Units that make something run and that something at boot pulls in."""
        units = [self.files.unit(name) for name in self.files.names(*(f"*{kind}" for kind in _KINDS))]
        return [unit for unit in units if unit.starts]

    @cached_property
    def callable(self) -> dict[str, str]:
        """Units that D-Bus would start at a call and nothing at boot does, each with the file that says so."""
        found: dict[str, str] = {}
        for name, path in by_bus(self.host, self.files.unread).items():
            try:
                unit = self.files.unit(name)
            except Unreadable:
                continue
            if not unit.masked and not unit.starts:
                found.setdefault(unit.name, path)
        return found

    def called(self, unit: str) -> str:
        """How a unit that does not start at boot would be started; "" for any other."""
        return f"not started at boot, but at a call over D-Bus ({path}): " if (path := self.callable.get(unit)) else ""

    @cached_property
    def essential(self) -> Essential:
        """Of the units that start, or that D-Bus would start, those that are not judged."""
        return essential(self.host, [*self.starting, *map(self.files.unit, self.callable)])

    @cached_property
    def installed(self) -> list[str]:
        """The names of all units; on a running machine also of those that systemd has and no folder does."""
        names = set(self.files.names("*"))
        return sorted(names | {row.unit for row in self.survey.rows} if self.host.live else names)

    @cached_property
    def kernels(self) -> dict[str, str]:
        """Every kernel by its release, and where it was found: the running one, else those installed."""
        if self.host.live:
            return dict.fromkeys(self.facts.kernels, "/proc/sys/kernel/osrelease")
        modules = {release: f"{_MODULES}/{release}" for release in self.facts.kernels}
        return dict(sorted((modules | self._kernel_images).items()))

    @cached_property
    def _kernel_images(self) -> dict[str, str]:
        found = unified_kernels(self.host)
        for release in self.facts.kernels:
            folder = f"{_MODULES}/{release}"
            if "vmlinuz" in self.names(folder):  # where Fedora and bootc keep it
                found[release] = f"{folder}/vmlinuz"
        for name in self.names("/boot"):
            kind, _, release = name.partition("-")
            # Ubuntu's /boot/vmlinuz is a link to one of the others; a file of that name is a kernel of its own.
            if not release and not self._is_file(f"/boot/{name}"):
                continue
            if f"{kind}-" in _KERNELS and "rescue" not in name and (kind == "vmlinuz" or version_of(release)):
                found[release or name] = f"/boot/{name}"
        return found

    @property
    def left_over(self) -> set[str]:
        """Kernels of which only modules are left, beside one that can boot. With none, /boot may be a partition."""
        return set(self.kernels) - set(self._kernel_images) if not self.host.live and self._kernel_images else set()

    @cached_property
    def command_lines(self) -> tuple[dict[str, list[str]], list[Blind]]:
        return command_lines(self.host, self._cmdline)

    @property
    def kernelless(self) -> str:
        """Why the kernel's rules do not apply: the root of a container has neither a kernel nor a boot loader."""
        said, unseen = self.command_lines
        hidden = [*unseen, *self.unread("/boot", _MODULES, "/lib/modules")]
        if self.kernels or said or hidden:
            return ""
        return "does not apply: no kernel and no boot loader in this root, as in that of a container"

    def is_allowed(self, unit: str) -> bool:
        return any(allowance.covers(unit) for allowance in self.allowed or ())

    def unread_units(self) -> Iterator[Blind]:
        """Unit folders and files that exist but cannot be read, or that link to where we do not follow."""
        yield from {it.source: it for it in self._unread_units()}.values()

    def _unread_units(self) -> Iterator[Blind]:
        seen = {self._resolved(folder) for folder in _SAY if self._lists(folder) == ""}
        for folder in _SAY:
            place = self._resolved(folder)
            # Where a link leads to a folder that is there, and has nothing of that name, nothing is left unread.
            if place not in seen and (self._is_there(place) or not self._is_there(dirname(place))):
                yield from self.unread(folder)
        for folder in FOLDERS:
            yield from self.unread(*(f"{folder}/{name}" for name in self.names(folder) if name.endswith(_HELD)))
            yield from (Blind(what="unit_files", source=it, why=_STRANGE) for it in self._strange_links(folder, seen))
        starting, _ = self.starting, self.callable  # which read the files in question
        reported = set()
        for path, why in self._blind_files():
            reported.add(path)
            yield Blind(what="unit_files", source=path, why=why)
        for unit in starting:
            # A unit that starts without any setting, not even ExecStart=, was not read; essential units are not judged.
            if not unit.settings and unit.name not in self.essential.names and unit.path not in reported:
                yield Blind(what="unit_files", source=unit.path, why="no setting in it could be read")

    def _blind_files(self) -> Iterator[tuple[str, str]]:
        yield from self.files.blind()
        try:
            self.host.read(presets.MACHINE, most=4096)
        except Unreadable as error:  # whether presets apply depends on it
            if error.why not in ABSENT:
                yield presets.MACHINE, error.why

    def _strange_links(self, folder: str, seen: Collection[str]) -> Iterator[str]:
        """Units that link to a file of another name outside the unit folders: not an alias, and not read."""
        for path in (f"{folder}/{name}" for name in self.names(folder) if name.endswith(_KINDS)):
            place, name = split(self._resolved(path))
            if name != basename(path) and place not in seen and (place, name) != ("/dev", "null"):
                yield path

    def unread(self, *folders: str) -> Iterator[Blind]:
        """Which of these exist and cannot be listed."""
        for folder in folders:
            if why := self._lists(folder):
                yield Blind(what="folder", source=folder, why=why)

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if it does not exist or cannot be listed (see `unread`)."""
        try:
            return self.host.listing(folder)
        except Unreadable:
            return []

    def _lists(self, folder: str) -> str:
        """Why a folder that exists cannot be listed; "" if it can, or does not exist."""
        try:
            self.host.listing(folder)
        except Unreadable as error:
            return "" if error.why in ABSENT else error.why
        return ""

    def _is_there(self, path: str) -> bool:
        try:
            return self.host.status(path) is not None
        except Unreadable:
            return True

    def _is_file(self, path: str) -> bool:
        try:
            status = self.host.status(path)
        except Unreadable:
            return True
        return status is not None and stat.S_ISREG(status.st_mode)

    def _resolved(self, path: str) -> str:
        """The path with its links followed as the image itself would, never outside it."""
        followed = 0
        done, left = "/", [part for part in path.split("/") if part]
        while left:
            step = normpath(join(done, left.pop(0)))
            try:
                target = self.host.link(step)
            except Unreadable:
                done = step
                continue
            followed += 1
            if followed > _MOST_LINKS:
                return path
            left = [part for part in join(dirname(step), target).split("/") if part] + left
            done = "/"
        return done
