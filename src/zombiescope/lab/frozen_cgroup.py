"""A cgroup with a working process in it is frozen and not thawed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.core import Host, UserError
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab._cgroups import join, remove
from zombiescope.lab._scenario import CPU_CAUSES, PREFIX, Fault, Truth, name_for
from zombiescope.lab._stallers import staller

_OTHERS = tuple(it for it in CPU_CAUSES if it != "blocked_tasks")
TRUTH = Truth(chain=("frozen_cgroup",), subject=rf"cgroup:/{PREFIX}frozen-\d+", silent=_OTHERS)
NEEDS = ("root",)
SECONDS = 12.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001  (one is enough)
    mounts = cgroup_mounts(Host())
    of = next((it for it in mounts if "freezer" in it.controllers), None) or next(
        (it for it in mounts if it.version == 2), None
    )
    if of is None:
        raise UserError("no hierarchy with a freezer is mounted")
    folder = f"{of.path}/{name_for('frozen')}"
    state, freeze, thaw = ("cgroup.freeze", "1", "0") if of.version == 2 else ("freezer.state", "FROZEN", "THAWED")
    os.mkdir(folder)
    try:
        with staller("waits") as pid:
            join(folder, pid)
            try:
                _write(f"{folder}/{state}", freeze)
                yield Fault(subject=f"cgroup:{folder.removeprefix(of.path)}", says=f"process {pid} in it is frozen")
            finally:
                _write(f"{folder}/{state}", thaw)
    finally:
        remove(folder)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
