"""Whether a step can be applied and undone at all: asked for every step before the first one runs."""

from __future__ import annotations

import base64
import stat

from zombiescope.core import Host, Step, Unreadable, harmless
from zombiescope.knowledge.units import GENERATED
from zombiescope.treatment.kept import TOPS, State


def refuse_unready(step: Step, host: Host, before: dict[str, State]) -> None:
    """Unreadable, with the reason, if it could not be done, or not be undone byte for byte."""
    if step.unit and not step.unit.endswith(".scope"):
        _refuse_generated(step.unit, host)
        for top in TOPS:
            folder = host.status(f"{top}/{step.unit}.d")
            if folder is not None and not stat.S_ISDIR(folder.st_mode):
                raise Unreadable(f"{top}/{step.unit}.d", "not a folder: left alone")
    for path in step.keeps:
        if before[path]["kind"] == "setting":
            _refuse_unwritable(path, before[path], host)


def _refuse_generated(unit: str, host: Host) -> None:
    asked = ("--property=Transient", "--property=FragmentPath")
    said = host.run("systemctl", "show", *asked, "--", unit)
    told = dict(line.partition("=")[::2] for line in said.splitlines())
    path = told.get("FragmentPath", "")
    if told.get("Transient") == "yes" or path.startswith(GENERATED):
        raise Unreadable(harmless(unit), f"its file {harmless(path)} is generated: change what generates it")


def _refuse_unwritable(path: str, state: State, host: Host) -> None:
    """Interrupts that the kernel manages have a file without the right to write (since v6.2), or one that refuses each
    write (before). So what is in it is written once more: that changes nothing."""
    status = host.status(path)
    if status is not None and not status.st_mode & 0o222:
        raise Unreadable(path, "the kernel does not let it be changed")
    host.act(("tee", path), stdin=base64.b64decode(state["content"]))
