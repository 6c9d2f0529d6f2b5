"""One unit as its files say: its settings, and which other units they pull in or trigger (systemd.unit(5))."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from zombiescope.audit.unit_syntax import Settings

KINDS = (".service", ".socket", ".timer", ".path", ".target", ".mount", ".automount", ".swap", ".slice")
PULLS = ("Requires", "BindsTo", "Wants", "Upholds")  # start the other unit; Requisite= does not
TRIGGERS = (".socket", ".timer", ".path", ".automount")  # kinds of unit that start another one later
INSTALLS = ("WantedBy", "RequiredBy", "UpheldBy")
_SPECIFIER = re.compile(r"%(.)")
_YES = ("1", "yes", "y", "true", "t", "on")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFile:
    name: str
    path: str
    drop_ins: tuple[str, ...] = ()
    masked: bool = False
    state: str = ""  # as `systemctl is-enabled` says it
    enabled_by: tuple[str, ...] = ()  # units that start at boot and pull it in or trigger it
    settings: Settings = field(default_factory=dict)

    @property
    def starts(self) -> bool:
        """Whether something that is started at boot pulls it in or triggers it."""
        return bool(self.enabled_by) and not self.masked

    def last(self, section: str, key: str, default: str = "") -> str:
        values = self.settings.get((section, key))
        return values[-1] if values else default

    def words(self, section: str, key: str) -> list[str]:
        """A list that several lines may add to."""
        return [word for value in self.settings.get((section, key), ()) for word in value.split()]

    def names(self, section: str, *keys: str) -> Iterator[str]:
        """The units that some settings name, with specifiers replaced; one that cannot be known here is left out."""
        for key in keys:
            for word in self.words(section, key):
                if (name := self._specified(word.strip("\"'"))).endswith(KINDS):
                    yield name

    def pulls(self) -> Iterator[str]:
        yield from self.names("Unit", *PULLS)
        yield from self.names("Service", "Sockets")

    def triggers(self) -> Iterator[str]:
        """What it starts when it fires: a socket at a connection, a timer at its time, a path at a change."""
        stem, _, kind = self.name.rpartition(".")
        if kind == "socket" and self.last("Socket", "Accept").lower() in _YES:
            yield f"{stem}@.service" if "@" not in stem else f"{stem}.service"
        elif kind == "socket":
            yield next(self.names("Socket", "Service"), f"{stem}.service")
        elif kind in ("timer", "path"):
            yield next(self.names(kind.capitalize(), "Unit"), f"{stem}.service")
        elif kind == "automount":
            yield f"{stem}.mount"

    @property
    def installable(self) -> bool:
        """Whether `systemctl enable` would do anything to it."""
        return any(self.words("Install", key) for key in (*INSTALLS, "Alias"))

    def _specified(self, text: str) -> str:
        if "%" not in text:
            return text
        stem = self.name.rpartition(".")[0]
        prefix, _, instance = stem.partition("@")
        last = prefix.rpartition("-")[2]
        known = {
            "n": self.name,
            "N": stem,
            "p": prefix,
            "P": prefix,
            "i": instance,
            "I": instance,
            "j": last,
            "J": last,
        }
        known["%"] = "%"
        parts = _SPECIFIER.findall(text)
        return _SPECIFIER.sub(lambda it: known[it[1]], text) if all(it in known for it in parts) else ""


def template(name: str) -> str:
    """foo@.service for foo@bar.service; any other name as it is."""
    stem, dot, kind = name.rpartition(".")
    return f"{stem.partition('@')[0]}@{dot}{kind}" if "@" in stem else name


def is_template(name: str) -> bool:
    return name.rpartition(".")[0].endswith("@")


def dropped_in(name: str) -> list[str]:
    """Names whose .d folders apply to a unit, the most specific first: foo-bar.service, foo-.service, service."""
    names = [name, template(name)] if "@" in name else [name]
    found: list[str] = []
    for it in names:
        stem, _, kind = it.rpartition(".")
        prefix, at, instance = stem.partition("@")
        found.append(it)
        while "-" in (prefix := prefix.rstrip("-")):
            prefix = prefix.rpartition("-")[0]
            found.append(f"{prefix}-{at}{instance}.{kind}")
    return list(dict.fromkeys(found))
