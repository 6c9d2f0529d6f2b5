"""The unit files of a root, as systemd would load them: which are installed, what they say, and what starts at boot.

For an image that is not running, or a machine whose systemd does not answer. The first folder of the search path that
has a unit wins; drop-ins (NAME.d/*.conf, PREFIX-.service.d, service.d) of all folders add to it; a unit that is a link
to /dev/null, or empty, is masked (systemd.unit(5)). Links are read, never followed: in an image they point into the
image, not into this machine.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from zombiescope.audit import activation, boot, presets, sysv
from zombiescope.audit.calendar_events import MOST_EVENTS, pace
from zombiescope.audit.loops import BURST, INTERVAL, PAUSE, RestartPolicy
from zombiescope.audit.unit_file import KINDS, TRIGGERS, UnitFile, dropped_in, is_template, template
from zombiescope.audit.unit_syntax import Settings, parse, seconds
from zombiescope.core import Host, Unreadable

# In the order of systemd.unit(5). What ran once (/run/systemd/transient) is left out: it does not start at boot.
FOLDERS = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
)
PACKAGED = "/usr/lib/systemd/system"
HELD = (".wants", ".requires", ".upholds")  # folders of links that start what they name
MOST_BYTES = 1 << 20  # of one unit file; the largest in use have some kilobytes
MANAGER = tuple(f"{place}/systemd/system.conf" for place in ("/etc", "/run", "/usr/local/lib", "/usr/lib"))


class UnitFiles:
    """All unit files of one root; listed once, each parsed when it is needed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.unread: dict[str, str] = {}  # what exists, was asked for and could not be read, and why
        self._loaded: dict[str, UnitFile | None] = {}
        self._targets: dict[str, str] = {}  # where links lead
        self._roots: set[str] = set()  # where boot begins
        self._at: dict[str, str] = {}  # the path of a unit; the first folder wins
        self._drop_ins: defaultdict[str, list[str]] = defaultdict(list)  # folders of drop-ins, by unit
        self._links: dict[str, dict[str, str]] = {}  # what a unit's .wants and .requires name, and in which folder
        for folder in self._folders():
            for name in self._listed(folder):
                stem, dot, kind = name.rpartition(".")
                if name.endswith(KINDS):
                    self._at.setdefault(name, f"{folder}/{name}")
                elif kind == "d":
                    self._drop_ins[stem].append(f"{folder}/{name}")
                elif dot + kind in HELD:
                    for wanted in self._listed(f"{folder}/{name}"):
                        self._links.setdefault(stem, {}).setdefault(wanted, folder)
        if not self._at:
            raise Unreadable(PACKAGED, "no unit files in this root: it has no systemd")
        self._native = dict(self._at)
        self._aliases = {name: real for name in self._at if (real := self._real_name(name)) != name}
        if boot.has_sysv(host):
            self._add_scripts()

    def names(self, *patterns: str) -> list[str]:
        """Installed units that match; also instances of a template that something pulls in (getty@tty1.service).

        A link to a unit of another name is an alias of that one, and is left out.
        """
        every = {*self._at, *self._pulled, *(it for held in self._links.values() for it in held if "@" in it)}
        every = {name for name in every if name in self._at or template(name) in self._at}
        found = [name for name in sorted(every) if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
        return [name for name in found if name not in self._aliases]

    def unit(self, name: str) -> UnitFile:
        unit = self._load(name)
        if unit is None:
            raise Unreadable(f"{PACKAGED}/{name}", "no such unit file")
        return replace(unit, enabled_by=tuple(self._pulled.get(unit.name, ())), state=self._state(unit))

    def blind(self) -> Iterator[tuple[str, str]]:
        """Files that say what starts, and how, and could not be read; not those of units that do not start."""
        _ = self._pulled, self._defaults  # which read them
        idle: set[str] = set()
        started: set[str] = set()
        for name, unit in self._loaded.items():
            paths = {path for it in (unit.path, *unit.drop_ins) for path in (it, self._target(it))} if unit else set()
            (started if name in self._pulled or name in self._roots else idle).update(paths)
        yield from ((path, why) for path, why in self.unread.items() if path not in idle - started)

    def needed_by(self, name: str) -> list[str]:
        """Units that start at boot, without targets, and pull this one in; what only triggers it does not need it."""
        askers = self._pulled.get(self._aliases.get(name, name), {})
        return sorted(it for it, pulls in askers.items() if pulls and not it.endswith((".target", *TRIGGERS)))

    def policy(self, unit: UnitFile) -> RestartPolicy:
        """With the defaults of this root, else systemd's, where the unit sets nothing."""
        default = self._defaults
        # Before systemd 230 it was StartLimitInterval= in [Service].
        interval = unit.last("Unit", "StartLimitIntervalSec") or unit.last("Unit", "StartLimitInterval")
        burst = unit.last("Unit", "StartLimitBurst") or unit.last("Service", "StartLimitBurst")
        return RestartPolicy(
            restart=unit.last("Service", "Restart", "no"),
            pause=seconds(unit.last("Service", "RestartSec"), default.pause),
            interval=seconds(interval or unit.last("Service", "StartLimitInterval"), default.interval),
            burst=int(burst) if burst.isdecimal() and len(burst) < 10 else default.burst,
            prevented_by=tuple(unit.words("Service", "RestartPreventExitStatus")),
        )

    def every(self, timer: str) -> float:
        """Seconds between two runs of a timer, all its settings together; infinity if it does not repeat."""
        unit = self.unit(timer)
        again = [it for key in ("OnUnitActiveSec", "OnUnitInactiveSec") for it in unit.settings.get(("Timer", key), ())]
        spans = [seconds(text, float("inf")) for text in again]
        events = unit.settings.get(("Timer", "OnCalendar"), [])
        if len(events) > MOST_EVENTS:
            self.unread[unit.path] = f"more than {MOST_EVENTS} calendar events"
        return min([*spans, pace(*events[:MOST_EVENTS])])

    def preset(self, name: str) -> str:
        """The distribution's preset for a unit: enable, disable or "" (the first rule that matches)."""
        rule = presets.rule_for(name, self._presets)
        return rule.order if rule else ""

    @cached_property
    def _pulled(self) -> dict[str, dict[str, bool]]:
        """What starts at boot, and what pulls it in."""
        linked = {name: list(held) for name, held in self._links.items()}
        if not self._host.live and presets.is_first_boot(self._host):
            units = [unit for name in self._native if name not in self._aliases and (unit := self._load(name))]
            for by, name, is_alias in presets.enabled(units, self._presets, self._load):
                if is_alias:
                    self._aliases.setdefault(by, name)
                else:
                    linked.setdefault(by, []).append(name)
        real: dict[str, list[str]] = {}
        for name, held in linked.items():
            real.setdefault(self._aliases.get(name, name), []).extend(held)
        targets = sorted(name for name in {*self._at, *real} if name.endswith(".target"))
        default = self._aliases.get(boot.DEFAULT, boot.DEFAULT) in self._at
        roots = boot.roots(targets, default=default, generated=bool(boot.generators(self._host)))
        self._roots = {self._aliases.get(name, name) for name in roots}
        others = activation.by_devices(self._host, self.unread)
        return boot.pulled_in(self._load_or_name, real, roots, others, self.unread)

    @cached_property
    def _defaults(self) -> RestartPolicy:
        said: Settings = {}
        here = [path for path in MANAGER if posixpath.basename(path) in self._listed(posixpath.dirname(path))]
        parse(next((text for path in here if (text := self._said(path)) is not None), ""), said)
        for path in self._first_of_each_name([f"{place}.d" for place in MANAGER], ".conf"):
            parse(self._text(path), said)

        def last(*keys: str) -> str:
            return next((said["Manager", key][-1] for key in keys if said.get(("Manager", key))), "")

        burst = last("DefaultStartLimitBurst")
        return RestartPolicy(
            pause=seconds(last("DefaultRestartSec"), PAUSE),
            interval=seconds(last("DefaultStartLimitIntervalSec", "DefaultStartLimitInterval"), INTERVAL),
            burst=int(burst) if burst.isdecimal() and len(burst) < 10 else BURST,
        )

    @cached_property
    def _presets(self) -> list[presets.Rule]:
        """Rules in order: files of all folders by name; of a file in two folders the first counts."""
        return presets.rules(self._text(path) for path in self._first_of_each_name(presets.FOLDERS, ".preset"))

    def _load_or_name(self, name: str) -> UnitFile | None:
        """A target without a file still pulls in what its folder of links names, in a root laid out by hand."""
        unit = self._load(name)
        return UnitFile(name=name, path="") if unit is None and name.endswith(".target") else unit

    def _load(self, name: str) -> UnitFile | None:
        """A unit, by its own name or an alias; None if there is no file."""
        stem = self._aliases.get(template(name), "")
        if stem and "@" in name and name not in self._aliases:  # an instance of an alias of a template
            name = stem.replace("@", f"@{name.partition('@')[2].rpartition('.')[0]}", 1)
        name = self._aliases.get(name, name)
        if name not in self._loaded:
            path = self._at.get(name) or self._at.get(template(name), "")
            self._loaded[name] = self._parsed(name, path) if path else None
        return self._loaded[name]

    def _parsed(self, name: str, path: str) -> UnitFile:
        text = sysv.SETTINGS if path.startswith(sysv.SCRIPTS) else self._text(path)
        names = [name, *(alias for alias, real in self._aliases.items() if real == name and "@" not in alias)]
        own = dict.fromkeys(it for alias in names for it in dropped_in(alias))
        folders = [place for folder in FOLDERS for it in own if (place := f"{folder}/{it}.d") in self._drop_ins[it]]
        folders += self._drop_ins[name.rpartition(".")[2]]  # service.d, which any other folder overrides
        drop_ins = self._first_of_each_name(folders, ".conf")
        settings = parse(text)
        for file in drop_ins:
            parse(self._text(file), settings)
        return UnitFile(name=name, path=path, drop_ins=tuple(drop_ins), masked=not text, settings=settings)

    def _state(self, unit: UnitFile) -> str:
        """As `systemctl is-enabled` says it: by links in /etc, then in /run; what cannot be enabled is static."""
        if unit.masked:
            return "masked"
        if unit.path.startswith(("/run/systemd/generator", *sysv.SCRIPTS)):
            return "generated"
        others = {alias for alias, real in self._aliases.items() if real == unit.name and alias in self._at}
        first = unit.name.replace("@.", f"@{unit.last('Install', 'DefaultInstance')}.", 1)
        own = {unit.name, first, *(others & set(unit.names("Install", "Alias")))}
        places = {self._at[alias].rpartition("/")[0]: alias in own for alias in others}
        for held in self._links.values():
            for name, folder in held.items():
                if name in own | others or (is_template(unit.name) and template(name) == unit.name):
                    places[folder] = places.get(folder, False) or name in own
        for folder, state in (("/etc/systemd/system", "enabled"), ("/run/systemd/system", "enabled-runtime")):
            if folder in places:  # by a name that is not its own, and that `systemctl enable` would not make: indirect
                return state if places[folder] else "indirect"
        if places and "@" in unit.name and not is_template(unit.name):
            return "static"
        if posixpath.dirname(self._target(unit.path)) not in FOLDERS:
            return "linked"
        return "disabled" if unit.installable else "indirect" if unit.words("Install", "Also") else "static"

    def _add_scripts(self) -> None:
        for name, path in sysv.scripts(self._host).items():
            self._at.setdefault(name, path)
        for target, name in sysv.links(self._host):
            if self._at.get(name, "").startswith(sysv.SCRIPTS):
                self._links.setdefault(target, {}).setdefault(name, sysv.SCRIPTS[0])

    def _real_name(self, name: str) -> str:
        """The name of the unit that a link leads to; its own if that is no other unit of this root."""
        target = posixpath.basename(self._target(self._at[name]))
        if template(name) == target or not (target in self._native or template(target) in self._native):
            return name
        return target if target.rpartition(".")[2] == name.rpartition(".")[2] else name

    def _target(self, path: str) -> str:
        """The target of a link within the root: one step for an alias, one for merged /usr; bounded, so no loops."""
        if path not in self._targets:
            target = path
            for _ in range(8):
                try:
                    said = self._host.link(target)
                except Unreadable:
                    break
                target = posixpath.normpath(posixpath.join(posixpath.dirname(target), said))
            self._targets[path] = target
        return self._targets[path]

    def _first_of_each_name(self, folders: list[str] | tuple[str, ...], ending: str) -> list[str]:
        """Files of several folders by name; of two with the same name the first folder's counts."""
        found: dict[str, str] = {}
        for folder in folders:
            for name in self._listed(folder):
                if name.endswith(ending):
                    found.setdefault(name, f"{folder}/{name}")
        return [found[name] for name in sorted(found)]

    def _folders(self) -> Iterator[str]:
        """The search path; /lib is /usr/lib wherever /usr is merged."""
        try:
            merged = self._host.link("/lib").strip("/") == "usr/lib"
        except Unreadable:
            merged = False
        yield from (it for it in FOLDERS if not (merged and it.startswith("/lib/")))

    def _said(self, path: str) -> str | None:
        try:
            return self._host.read(path, most=MOST_BYTES)
        except Unreadable as error:
            if error.why not in presets.ABSENT:
                self.unread[path] = error.why
            return None

    def _text(self, path: str) -> str:
        """A file, or what a link leads to. One that cannot be read has no settings; a mask is empty."""
        target = self._target(path)
        if target == "/dev/null":
            return ""
        said = self._said(target)
        if said is None and target != path and target not in self.unread:
            self.unread[path] = f"links to {target}, which is not in this root"
        return "# unreadable" if said is None else said

    def _listed(self, folder: str) -> list[str]:
        try:
            names, more = self._host.first_names(folder, boot.MOST_UNITS)
        except Unreadable:
            return []
        if more:
            self.unread[folder] = f"more than {boot.MOST_UNITS:,} names"
        return names
