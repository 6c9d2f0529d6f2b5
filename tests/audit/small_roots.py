"""A small root of an image, made of a few files and links, and one unit made of its text."""

from __future__ import annotations

from pathlib import Path

from zombiescope.audit.unit_file import UnitFile
from zombiescope.audit.unit_files import UnitFiles
from zombiescope.audit.unit_syntax import parse
from zombiescope.core import Host

LIB, ETC = "usr/lib/systemd/system", "etc/systemd/system"
ECS = "[Service]\nRestart=on-failure\nRestartSec=10s\n[Install]\nWantedBy=multi-user.target\n"


def unit(name: str, text: str = "", **rest: object) -> UnitFile:
    return UnitFile(name=name, path=f"/{LIB}/{name}", settings=parse(text), **rest)  # type: ignore[arg-type]


def built(root: Path, files: dict[str, str], links: dict[str, str] | None = None) -> Host:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, errors="surrogateescape")
    for name, target in (links or {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    return Host(str(root), live=False)


def root(folder: Path, files: dict[str, str], links: dict[str, str] | None = None) -> UnitFiles:
    return UnitFiles(built(folder, {"etc/machine-id": "", **files}, links))  # without it, presets would be applied
