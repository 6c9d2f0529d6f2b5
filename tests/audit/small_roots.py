"""A small root of an image, made of a few files and links, and one unit made of its text."""

from __future__ import annotations

from pathlib import Path

from tests.files import NO_LINKS, node_of

from zombiescope.audit.unit_file import UnitFile
from zombiescope.audit.unit_files import UnitFiles
from zombiescope.audit.unit_syntax import parse

LIB, ETC = "usr/lib/systemd/system", "etc/systemd/system"
ECS = "[Service]\nRestart=on-failure\nRestartSec=10s\n[Install]\nWantedBy=multi-user.target\n"


def unit(name: str, text: str = "", **rest: object) -> UnitFile:
    return UnitFile(name=name, path=f"/{LIB}/{name}", settings=parse(text), **rest)  # type: ignore[arg-type]


def root(folder: Path, files: dict[str, str], links: dict[str, str] | None = None) -> UnitFiles:
    return UnitFiles(
        node_of(folder, {"etc/machine-id": "", **files}, links or NO_LINKS)
    )  # without it, presets would be applied
