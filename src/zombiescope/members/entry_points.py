"""What installed packages declare for us: entry points of the groups `zombiescope.<room>` and `zombiescope.knowledge`.

importlib.metadata costs 30 ms to import and reads every package's metadata. What we need is one short file of the
packages that have it, in the format of the packaging guide. A package that Python could import is trusted as
zombiescope itself is: a user who may change it may change us.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

from zombiescope.core.errors import Unreadable
from zombiescope.members.outside import read_regular

_PREFIX = "zombiescope."


class EntryPoint(NamedTuple):
    """One line of a package's entry_points.txt."""

    name: str
    module: str
    package: str  # who says so: "own_sign-1.0.dist-info"


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Those of one group (`signs`, `knowledge`, …), in the order of sys.path; the first of a name counts."""
    return _all().get(_PREFIX + group, ())


def folder_of(module: str) -> str:
    """The folder of a package, found without importing it or its parents; `Unreadable` if there is none."""
    top, *rest = module.split(".")
    try:
        spec = find_spec(top)  # of a name without a dot: that imports nothing
    except (ImportError, ValueError):
        spec = None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    for place in places:
        folder = os.path.join(place, *rest)
        if os.path.isdir(folder):
            return folder
    raise Unreadable(module, "no package of this name is installed: name the package that carries the .toml files")


@cache
def _all() -> dict[str, tuple[EntryPoint, ...]]:
    groups: dict[str, list[EntryPoint]] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            # Names of packages are many and short; what is not a folder (python311.zip) has none.
            packages = sorted(it for it in os.listdir(folder or ".") if it.endswith((".dist-info", ".egg-info")))
        except OSError:
            continue
        for package in packages:
            path = os.path.join(folder, package, "entry_points.txt")
            if not os.path.isfile(path):
                continue
            try:
                text = read_regular(path)
            except Unreadable:
                continue
            if b"[zombiescope." in text:
                _declared(text.decode("utf-8", "replace"), package, groups)
    return {group: tuple(dict.fromkeys(points)) for group, points in groups.items()}


def _declared(text: str, package: str, groups: dict[str, list[EntryPoint]]) -> None:
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif "=" in line and group.startswith(_PREFIX) and not line.startswith(("#", ";")):
            name, _, module = line.partition("=")
            # `module [extra]` is an old way to ask for an optional part: the module is what counts.
            place = module.partition("[")[0].strip()
            groups.setdefault(group, []).append(EntryPoint(name.strip(), place, package))
