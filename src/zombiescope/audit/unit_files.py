"""The unit files of a root, as systemd would load them: which are installed, enabled, masked, and what they say.

For an image that is not running, or a machine whose systemd does not answer. The first folder of the search path that
has a unit wins; drop-ins (`NAME.d/*.conf`) of all folders add to it; a link in `X.wants/` or `X.requires/` enables it;
a unit that is a link to /dev/null, or empty, is masked (systemd.unit(5)). Links are read, never followed: in an image
they point into the image, not into this machine.
"""

from __future__ import annotations

import fnmatch
import posixpath
from dataclasses import dataclass, field
from functools import cached_property

from zombiescope.audit.loops import BURST, INTERVAL, PAUSE, RestartPolicy
from zombiescope.audit.unit_syntax import Settings, calendar_pace, parse, seconds
from zombiescope.core import Host, Unreadable
from zombiescope.kernel.text import lines

# Administrator's, runtime, packages' (systemd.unit(5)).
FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
PRESETS = tuple(f"{folder}-preset" for folder in FOLDERS)
MOST_BYTES = 1 << 20  # of one unit file; the largest in use have some kilobytes
MOST_UNITS = 20_000  # of one root; a full desktop has a thousand
_MANAGER = "/etc/systemd/system.conf"
_KINDS = (".service", ".socket", ".timer", ".path", ".target", ".mount", ".automount", ".swap", ".slice")
_NEEDS = ("Requires", "Requisite", "BindsTo", "Wants", "Upholds")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFile:
    """One unit as its files say."""

    name: str
    path: str
    drop_ins: tuple[str, ...] = ()
    masked: bool = False
    enabled_by: tuple[str, ...] = ()  # targets and units whose .wants or .requires name it
    settings: Settings = field(default_factory=dict)

    @property
    def installable(self) -> bool:
        return any(section == "Install" for section, _ in self.settings)

    @property
    def starts(self) -> bool:
        """Whether something that is started at boot pulls it in."""
        return bool(self.enabled_by) and not self.masked

    @property
    def state(self) -> str:
        """As `systemctl is-enabled` says it: what has no [Install] section cannot be enabled, though it may start."""
        if self.masked:
            return "masked"
        return "static" if not self.installable else "enabled" if self.enabled_by else "disabled"

    def last(self, section: str, key: str, default: str = "") -> str:
        values = self.settings.get((section, key))
        return values[-1] if values else default

    def words(self, section: str, key: str) -> list[str]:
        """A list that several lines may add to."""
        return [word for value in self.settings.get((section, key), ()) for word in value.split()]


class UnitFiles:
    """All unit files of one root; listed once, each parsed when it is needed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._parsed: dict[str, UnitFile] = {}
        listings = {folder: self._listed(folder) for folder in FOLDERS}
        if not any(listings.values()):
            raise Unreadable(FOLDERS[3], "no unit files in this root: it has no systemd")
        self._at: dict[str, str] = {}  # the path of a unit; the first folder wins
        self._drop_ins: dict[str, list[str]] = {}  # folders of drop-ins, by unit
        self._wanted: dict[str, list[str]] = {}  # the units that want it, from .wants and .requires
        for folder, names in listings.items():
            for name in names:
                if name.endswith(_KINDS):
                    self._at.setdefault(name, f"{folder}/{name}")
                elif name.endswith(".d"):
                    self._drop_ins.setdefault(name.removesuffix(".d"), []).append(f"{folder}/{name}")
                elif name.endswith((".wants", ".requires")):
                    for wanted in self._listed(f"{folder}/{name}"):
                        self._wanted.setdefault(wanted, []).append(name.rpartition(".")[0])

    def names(self, *patterns: str) -> list[str]:
        """Installed units that match; also instances of a template that something wants (getty@tty1.service).

        A link to a unit of another name is an alias of that one, and is left out.
        """
        instances = [name for name in self._wanted if "@" in name and self._template(name) in self._at]
        every = sorted({*self._at, *instances})
        found = [name for name in every if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
        return [name for name in found if not self._is_alias(name)]

    def unit(self, name: str) -> UnitFile:
        if name not in self._parsed:
            self._parsed[name] = self._load(name)
        return self._parsed[name]

    def needed_by(self, name: str) -> list[str]:
        """Enabled units, without targets, that need this one: in their files, or by a link in NAME.wants."""
        askers = {asker for asker in self._wanted.get(name, ()) if not asker.endswith(".target")}
        for other in self._enabled:
            unit = self.unit(other)
            if other != name and any(name in unit.words("Unit", key) for key in _NEEDS):
                askers.add(other)
        return sorted(asker for asker in askers if not asker.endswith(".target"))

    def policy(self, unit: UnitFile) -> RestartPolicy:
        """With the defaults of this root, else systemd's, where the unit sets nothing."""
        default = self._defaults
        # Before systemd 230 it was StartLimitInterval= in [Service].
        interval = unit.last("Unit", "StartLimitIntervalSec") or unit.last("Service", "StartLimitInterval")
        burst = unit.last("Unit", "StartLimitBurst") or unit.last("Service", "StartLimitBurst")
        return RestartPolicy(
            restart=unit.last("Service", "Restart", "no"),
            pause=seconds(unit.last("Service", "RestartSec"), default.pause),
            interval=seconds(interval, default.interval),
            burst=int(burst) if burst.isdecimal() and len(burst) < 10 else default.burst,
            prevented_by=tuple(unit.words("Service", "RestartPreventExitStatus")),
        )

    def every(self, timer: str) -> float:
        """Seconds between two runs of a timer, if its settings say so directly; else infinity."""
        unit = self.unit(timer)
        spans = [seconds(unit.last("Timer", key), float("inf")) for key in ("OnUnitActiveSec", "OnUnitInactiveSec")]
        return min([*spans, *(calendar_pace(text) for text in unit.settings.get(("Timer", "OnCalendar"), ()))])

    def preset(self, name: str) -> str:
        """The distribution's preset for a unit: enable, disable or "" (the first rule that matches)."""
        return next((order for order, pattern in self._presets if fnmatch.fnmatchcase(name, pattern)), "")

    @cached_property
    def _enabled(self) -> list[str]:
        return [name for name in self._wanted if name in self._at or self._template(name) in self._at][:MOST_UNITS]

    @cached_property
    def _defaults(self) -> RestartPolicy:
        try:
            said = parse(self._host.read(_MANAGER, most=MOST_BYTES))
        except Unreadable:
            said = {}

        def last(key: str) -> str:
            return (said.get(("Manager", key)) or [""])[-1]

        burst = last("DefaultStartLimitBurst")
        return RestartPolicy(
            pause=seconds(last("DefaultRestartSec"), PAUSE),
            interval=seconds(last("DefaultStartLimitIntervalSec"), INTERVAL),
            burst=int(burst) if burst.isdecimal() and len(burst) < 10 else BURST,
        )

    @cached_property
    def _presets(self) -> list[tuple[str, str]]:
        """Rules in order: files of all folders by name; of a file in two folders the first counts."""
        files: dict[str, str] = {}
        for folder in PRESETS:
            for name in self._listed(folder):
                if name.endswith(".preset"):
                    files.setdefault(name, f"{folder}/{name}")
        rules = []
        for name in sorted(files):
            for line in lines(self._text(files[name])):
                order, _, pattern = line.strip().partition(" ")
                if order in ("enable", "disable") and pattern:
                    rules.append((order, pattern.split()[0]))
        return rules

    def _load(self, name: str) -> UnitFile:
        path = self._at.get(name) or self._at.get(self._template(name), "")
        if not path:
            raise Unreadable(f"{FOLDERS[3]}/{name}", "no such unit file")
        target = self._target(path)
        text = "" if target == "/dev/null" else self._text(target)
        owners = [self._template(name), name] if "@" in name else [name]
        drop_ins = {
            file: f"{folder}/{file}"
            for owner in owners
            for folder in reversed(self._drop_ins.get(owner, []))  # of two with the same name the first folder's counts
            for file in self._listed(folder)
            if file.endswith(".conf")
        }
        settings = parse(text)
        for file in sorted(drop_ins):
            parse(self._text(self._target(drop_ins[file])), settings)
        return UnitFile(
            name=name,
            path=path,
            drop_ins=tuple(drop_ins[file] for file in sorted(drop_ins)),
            masked=target == "/dev/null" or not text.strip(),
            enabled_by=tuple(dict.fromkeys(self._wanted.get(name, ()))),
            settings=settings,
        )

    def _is_alias(self, name: str) -> bool:
        path = self._at.get(name, "")
        target = posixpath.basename(self._target(path))
        return bool(path) and target not in (name, "null")

    def _target(self, path: str) -> str:
        """The target of a link within the root: one step for an alias, one for merged /usr; bounded, so no loops."""
        for _ in range(8):
            try:
                said = self._host.link(path)
            except Unreadable:
                return path
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), said))
        return path

    def _text(self, path: str) -> str:
        """A file that cannot be read counts as one without settings; that it exists is known."""
        try:
            return self._host.read(path, most=MOST_BYTES)
        except Unreadable:
            return "# unreadable"

    def _listed(self, folder: str) -> list[str]:
        try:
            return self._host.listing(folder)[:MOST_UNITS]
        except Unreadable:
            return []

    @staticmethod
    def _template(name: str) -> str:
        stem, dot, kind = name.rpartition(".")
        return f"{stem.partition('@')[0]}@{dot}{kind}" if "@" in stem else name
