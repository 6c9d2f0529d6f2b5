"""What a step can have changed: for one that was interrupted, so that undo restores this and nothing of others.

Between a crash and its undo hours may pass, in which administrators enable and disable units of their own. Each command
of ours changes known files: `mask` makes one link, `disable` removes links to the unit, to its aliases and to what its
`Also=` names (systemctl(1)) and renames those of their SysV scripts; `stop` and `daemon-reload` change none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from posixpath import basename, dirname

from zombiescope.audit.unit_file import is_template, template
from zombiescope.audit.unit_files import UnitFiles
from zombiescope.core import Host, Step, Unreadable
from zombiescope.treatment.kept import ABSENT, RUNLEVELS, TOPS, State, changed

MOST_UNITS = 1000  # that Also= leads to; one or two are usual
_NO_FILES = ("stop", "start", "daemon-reload")


def disabled_with(host: Host, step: Step, before: Mapping[str, State]) -> list[str] | None:
    """The units whose links `systemctl disable` removes: its own, its aliases', those of Also=. None: not known."""
    if _verb(step) != "disable":
        return []
    try:
        files = UnitFiles(host)
        found: set[str] = set()
        unvisited = [step.unit]
        while unvisited and len(found) < MOST_UNITS:
            name = unvisited.pop()
            if name in found:
                continue
            found.add(name)
            unvisited += _aliases(name, before)
            try:
                unit = files.unit(name)
            except Unreadable:  # an alias, or a unit that Also= names and nobody installed
                continue
            also = list(unit.names("Install", "Also"))
            if len(also) != len(unit.words("Install", "Also")) or unit.path in files.unread:
                return None  # a specifier that is not known here, or a file that was not read
            unvisited += also
    except Unreadable:
        return None
    return None if unvisited else sorted(found)


def may_have_changed(
    step: Step, before: Mapping[str, State], now: Mapping[str, State], units: Collection[str] | None
) -> tuple[list[str], list[str]]:
    """Of the paths that differ, those that this step can have changed, and those of which it cannot be known.

    `units` is what `disabled_with` found before the step.
    """
    ours: set[str] = set()
    unknown: set[str] = set()
    for path in changed(before, now):
        was, after = before.get(path, ABSENT), now.get(path, ABSENT)
        if any(path == it or path.startswith(f"{it}/") for it in step.keeps):
            ours.add(path)
        elif _verb(step) == "disable":
            gone = was["kind"] == "link" and after["kind"] == "absent"
            renamed = dirname(path) in RUNLEVELS and "link" in (was["kind"], after["kind"])
            if (gone or renamed) and _links_to({step.unit, *(units or ())}, path, was if gone else after):
                ours.add(path)
            elif gone and units is None:
                unknown.add(path)
        elif _verb(step) == "mask":
            if path == f"{TOPS[0]}/{step.unit}" and after == {"kind": "link", "to": "/dev/null"}:
                ours.add(path)
        elif _verb(step) not in _NO_FILES and _is_named(path, step):
            ours.add(path)
    # A folder of links that is gone because it was empty comes back with the links.
    ours |= {folder for path in ours if (folder := dirname(path)) in before and folder not in now}
    return sorted(ours), sorted(unknown)


def _verb(step: Step) -> str:
    match step.argv:
        case ("systemctl", verb, *_):
            return verb
    return ""


def _is_named(path: str, step: Step) -> bool:
    """Whether it is what a command writes to, or a folder that is made for it."""
    return any(word == path or word.startswith(f"{path}/") for word in step.argv)


def _links_to(units: Collection[str], path: str, state: State) -> bool:
    if dirname(path) in RUNLEVELS:
        return state["kind"] == "link" and f"{basename(state['to'])}.service" in units
    return any(
        name in units or (template(name) in units and is_template(template(name)))
        for name in (basename(path), basename(state["to"]))
    )


def _aliases(unit: str, before: Mapping[str, State]) -> list[str]:
    """Other names of a unit: links in the folders of units themselves that lead to it."""
    return [
        basename(path)
        for path, state in before.items()
        if state["kind"] == "link" and dirname(path) in TOPS and basename(state["to"]) == unit
    ]
