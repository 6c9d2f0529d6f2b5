"""A small tree of files, written for a test: a copy of a node's files, an image, a folder of members."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zombiescope.core import Host

NO_LINKS: Mapping[str, str] = {}


def write(folder: Path, files: Mapping[str, str], links: Mapping[str, str] = NO_LINKS) -> Path:
    """Each file by its path and text, and each link by what it leads to; a path that ends in / is an empty folder."""
    for name, text in files.items():
        if name.endswith("/"):
            (folder / name).mkdir(parents=True, exist_ok=True)
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, errors="surrogateescape")
    for name, target in links.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)
    return folder


def node_of(folder: Path, files: Mapping[str, str], links: Mapping[str, str] = NO_LINKS) -> Host:
    """The copy of a node that has these files."""
    return Host(str(write(folder, files, links)), live=False)
