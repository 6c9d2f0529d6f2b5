"""A node's recording, copied to this machine: what its agent has recorded, or what a pod of ours records now.

It comes as an archive from a pod, so its contents are not trusted: plain files and folders below one folder, of names
that a recording has, bounded in number and bytes. What is left out is said, what does not fit ends it.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import IO

from zombiescope.core import UserError, harmless
from zombiescope.plugin.kubectl import Kubectl
from zombiescope.plugin.pods import Pod

MOST_BYTES = 4 << 30  # a recording keeps to --max-bytes, 1 GB or less by default
MOST_FILES = 100_000  # some 15 in a segment of five minutes: a month
CHUNK = 1 << 20
_NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,100}/){0,3}[A-Za-z0-9][\w.-]{0,100}", re.ASCII)
# Runs in the pod with its own Python. The agent's token stays there. A recording is added to while it is copied: a file
# that goes in between is left out, so is one that is half written (its name begins with a dot), and one that grows is
# cut at the length it had.
PACK = """
import os, stat, sys, tarfile
top = sys.argv[1]
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as out:
    for folder, folders, files in os.walk(top):
        folders.sort()
        for name in sorted(it for it in files if not it.startswith(".")):
            path = os.path.join(folder, name)
            if os.path.relpath(path, top).startswith("agent/token"):
                continue
            try:
                file = open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
            except OSError:
                continue
            with file:
                about = os.fstat(file.fileno())
                if stat.S_ISREG(about.st_mode):
                    entry = tarfile.TarInfo(os.path.relpath(path, top))
                    entry.size = about.st_size
                    out.addfile(entry, file)
"""


def pack(folder: str) -> tuple[str, ...]:
    """The command that writes a folder of a pod to its output."""
    return ("python3", "-I", "-S", "-c", PACK, folder)


def received(stream: IO[bytes], place: Path) -> int:
    """The archive as a new folder, whole or not at all; how many bytes it has."""
    if os.path.lexists(place):
        raise UserError(f"{place} is there already")
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))  # nobody else may read it
    except OSError as error:
        raise UserError(f"{place.parent}: {(error.strerror or str(error)).lower()}") from None
    try:
        total = _unpacked(stream, made)
        os.rename(made, place)
        return total
    except OSError as error:
        raise UserError(f"{place}: {(error.strerror or str(error)).lower()}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)


def copied(kubectl: Kubectl, pod: Pod, folder: str, place: Path) -> int:
    """A recording of a pod as a new folder here; how many bytes it has."""
    with kubectl.stream(*pod.command(*pack(folder))) as stream:
        return received(stream, place)


def _unpacked(stream: IO[bytes], folder: Path) -> int:
    files = total = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for entry in archive:
                if not entry.isreg() or not _NAME.fullmatch(entry.name):
                    raise UserError(f"the pod sent {harmless(entry.name, most=80)!r}, which no recording has")
                files, total = files + 1, total + entry.size
                if files > MOST_FILES or total > MOST_BYTES:
                    raise UserError(f"the recording has more than {MOST_BYTES >> 30} GB or {MOST_FILES:,} files")
                content = archive.extractfile(entry)
                assert content is not None
                target = folder / entry.name
                target.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                with open(descriptor, "wb") as out:
                    shutil.copyfileobj(content, out, CHUNK)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise UserError(f"the recording did not come whole: {harmless(str(error), most=100)}") from None
    if not files:
        raise UserError("the pod sent no recording")
    return total
