"""What presets enable at the first boot of an image (systemd.preset(5), machine-id(5)).

A boot is the first if /etc/machine-id does not exist or says "uninitialized"; systemd then enables every unit that its
presets do not disable. The first rule that matches counts; a unit that no rule names is enabled. An empty
/etc/machine-id, as most cloud images have, is not a first boot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from zombiescope.audit.unit_file import INSTALLS, UnitFile, is_template
from zombiescope.audit.unit_syntax import ended_lines
from zombiescope.core import Host, Unreadable

MACHINE = "/etc/machine-id"
_FRESH = "uninitialized"
ABSENT = ("no such file or directory", "not a directory")
FOLDERS = tuple(f"{place}/systemd/system-preset" for place in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"))


@dataclass(frozen=True, slots=True)
class Rule:
    order: str  # enable, disable or ignore
    pattern: str
    instances: tuple[str, ...] = ()  # of a template


def is_first_boot(host: Host) -> bool:
    try:
        return host.read(MACHINE, most=4096).strip() == _FRESH
    except Unreadable as error:
        return error.why in ABSENT


def rules(texts: Iterable[str]) -> list[Rule]:
    """The rules of preset files in their order."""
    found = []
    for text in texts:
        for line in ended_lines(text):
            words = line.split()
            if len(words) > 1 and words[0] in ("enable", "disable", "ignore"):
                found.append(Rule(words[0], words[1], tuple(words[2:]) if words[0] == "enable" else ()))
    return found


def rule_for(name: str, every: Iterable[Rule]) -> Rule | None:
    return next((it for it in every if fnmatchcase(name, it.pattern)), None)


def enabled(
    units: Iterable[UnitFile], every: list[Rule], load: Callable[[str], UnitFile | None]
) -> Iterator[tuple[str, str, bool]]:
    """The links that presets make: (by, unit, False) in its .wants, or (alias, unit, True)."""
    for unit in units:
        rule = rule_for(unit.name, every)
        if unit.masked or not (unit.installable or unit.words("Install", "Also")) or (rule and rule.order != "enable"):
            continue
        yield from _installed(unit, rule.instances if rule else (), load, set())


def _installed(
    unit: UnitFile, instances: tuple[str, ...], load: Callable[[str], UnitFile | None], seen: set[str]
) -> Iterator[tuple[str, str, bool]]:
    names = [unit.name]
    if is_template(unit.name):
        named = instances or tuple(unit.words("Install", "DefaultInstance")[-1:])
        stem, _, kind = unit.name.rpartition(".")
        names = [f"{stem}{instance}.{kind}" for instance in named]
    for name in names:
        made = load(name)
        if made is None or name in seen:
            continue
        seen.add(name)
        yield from ((by, name, False) for by in made.names("Install", *INSTALLS))
        yield from ((alias, name, True) for alias in made.names("Install", "Alias"))
        for other in made.names("Install", "Also"):
            also = load(other)
            if also is not None and other not in seen:
                yield from _installed(also, (), load, seen)
