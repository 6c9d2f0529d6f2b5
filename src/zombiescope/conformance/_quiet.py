"""A healthy node: a copied root that comes with the package, read twice ten seconds apart."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

from zombiescope.core import Blind, Host
from zombiescope.core.samples import SOURCE
from zombiescope.core.timeline import Timeline
from zombiescope.members.rooms import healthy, outside_folders
from zombiescope.recorder.sampling import Notes, look
from zombiescope.recorder.stack_series import GIVES, NAME
from zombiescope.recorder.tape import Tape

ROOT = Path(__file__).parent / "quiet"
BEGAN = 1_794_000_000.0


def quiet_node() -> Timeline:
    """Between the two reads its cores were idle, and nothing else moved."""
    return _recorded(outside_folders())


@cache
def _recorded(folders: tuple[str, ...]) -> Timeline:  # noqa: ARG001  # whose probes are among those that read it
    tape = Tape()
    with tempfile.TemporaryDirectory(prefix="zombiescope-quiet-") as folder:
        read_quiet(tape, Path(folder))
    return tape.timeline()


def read_quiet(sink: Notes, folder: Path) -> None:
    """Read the healthy node with every probe; its two copies are made in `folder`."""
    for later in (0, 10):
        root = folder / f"quiet-{later}"
        shutil.copytree(ROOT, root)
        (root / "at").write_text(str(BEGAN + later))
        stat = root / "proc" / "stat"
        stat.write_text("".join(_idled(line, later) for line in stat.read_text().splitlines(keepends=True)))
        for name, probe in healthy("probes").items():
            look(Host(str(root), live=False), name, probe, sink)
        why = "a copy of files holds no stacks"
        sink.look(NAME, GIVES, BEGAN + later, [Blind(what=what, source=SOURCE, why=why) for what in GIVES])


def _idled(line: str, seconds: int) -> str:
    name, *ticks = line.split()
    if not name.startswith("cpu") or name == "cpu":
        return line
    ticks[3] = str(int(ticks[3]) + 100 * seconds)
    return " ".join([name, *ticks]) + "\n"
