"""Which units of a root are never judged: those that a machine needs, as packages of the operating system install them.

A name alone exempts nothing in an image: anybody can call a unit cloud-something. There the package that owns the
unit's file decides, and a drop-in of no package that changes what it runs or how it restarts takes the exemption
away. On a running machine the name counts, as it does for a fix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from zombiescope.audit.activation import is_off
from zombiescope.audit.packages import Owner, owners
from zombiescope.audit.unit_file import UnitFile
from zombiescope.audit.unit_syntax import parse
from zombiescope.core import Host, Unreadable
from zombiescope.knowledge.packages import of_the_system
from zombiescope.knowledge.units import never_judge

MOST_BYTES = 1 << 20  # of one drop-in
_CHANGES = ("Exec", "Restart", "StartLimit")  # settings of a drop-in that make another service of it


class Essential(NamedTuple):
    names: frozenset[str]  # of the units that are not judged
    unknown: str = ""  # why no package could be asked, if units are judged for that reason


def essential(host: Host, units: Iterable[UnitFile]) -> Essential:
    named = [unit for unit in units if never_judge(unit.name)]
    if host.live:
        return Essential(frozenset(unit.name for unit in named))
    paths = {path for unit in named for path in (unit.path, *unit.drop_ins)}
    try:
        owned = owners(host, paths) if paths else {}
    except Unreadable as error:
        return Essential(frozenset(), str(error))
    return Essential(frozenset(unit.name for unit in named if _is_the_systems(host, unit, owned)))


def _is_the_systems(host: Host, unit: UnitFile, owned: dict[str, Owner]) -> bool:
    if not _trusted(owned.get(unit.path)):
        return False
    added = [path for path in _own_drop_ins(unit) if path not in owned]
    return not any(_changes(host, path) for path in added)


def _trusted(owner: Owner | None) -> bool:
    if owner is None:
        return False
    # rpm says NAME-VERSION-RELEASE.
    name = owner.package.rsplit("-", 2)[0] if owner.source.startswith("$ rpm") else owner.package
    return of_the_system(name)


def _own_drop_ins(unit: UnitFile) -> Iterator[str]:
    """Without those of every unit of its kind (service.d), which say nothing about this one."""
    kind = unit.name.rpartition(".")[2]
    yield from (path for path in unit.drop_ins if f"/{kind}.d/" not in path)


def _changes(host: Host, path: str) -> bool:
    if is_off(host, path):
        return False
    try:
        settings = parse(host.read(path, most=MOST_BYTES))
    except Unreadable:
        return True
    return any(key.startswith(_CHANGES) for _, key in settings)
