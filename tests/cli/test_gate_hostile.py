"""`zombiescope gate` on images made to mislead it: names that are markup, links that lead out, files without an end."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.gate_reports import as_junit, as_sarif, gated
from tests.conftest import Run
from tests.gate.images import ECS, ETC, LIB, WANTS, clean

ODD = "\x1b[31mevil\x0b\udcff\ufffe\n]]>.service"


def test_hostile_names_leave_every_format_whole(zombiescope: Run, tmp_path: Path) -> None:
    poll = "[Timer]\nOnUnitActiveSec=1s\n[Install]\nWantedBy=x\n"
    files = {f"{LIB}/{ODD}": ECS, f"{LIB}/{ODD}.timer": poll, "etc/os-release": "NAME=\x1b]0;evil\x07\n"}
    root = clean(tmp_path, files, {f"{WANTS}/{ODD}": f"/{LIB}/{ODD}", f"{WANTS}/{ODD}.timer": f"/{LIB}/{ODD}.timer"})
    (root / "boot/vmlinuz-5.4\x1b\n\udcff").touch()
    (tmp_path / "allow.toml").write_text("units = []\n")
    argv = ("gate", "--root", str(root), "--allow", str(tmp_path / "allow.toml"))
    for form in ("text", "json", "junit", "sarif"):
        done = zombiescope(*argv, "--format", form, expect=1)
        assert "evil" in done.stdout and not re.search(
            r"[\x00-\x08\x0b-\x1f\ufffe\ud800-\udfff]", done.stdout + done.stderr
        )
        if form == "junit":
            as_junit(done.stdout)
            ElementTree.fromstring(done.stdout)
        if form == "sarif":
            as_sarif(done.stdout)
        if form == "json":
            json.loads(done.stdout)


@pytest.mark.kernel
@pytest.mark.beside
def test_a_root_full_of_traps_neither_leads_out_nor_hangs(zombiescope: Run) -> None:
    # In tmpfs, where a tree so deep is gone in a second: on ext4 that takes half a minute.
    with tempfile.TemporaryDirectory(prefix="zslab-gate-", dir="/dev/shm") as folder:
        try:
            root = _trap(Path(folder))
            shape = gated(zombiescope, "--root", str(root), expect=3)
        finally:
            subprocess.run(["rm", "-rf", f"{folder}/root"], check=True)  # Python's own clean-up does not go so deep
    assert not shape["objections"]
    unseen = {it["source"] for it in shape["blind"]}
    assert {f"/{LIB}/out.service", f"/{LIB}/zero.service", "/etc/kernel/cmdline", "/boot/grub/grub.cfg"} <= unseen


def _trap(folder: Path) -> Path:
    """Links that circle and lead out, a FIFO, a device that never ends, a file of a terabyte, a bottomless tree."""
    root = clean(folder / "root", links={"loop": "loop", "etc/ecs": "../loop", f"{WANTS}/gone.service": "/none"})
    (folder / "secret.service").write_text(ECS)
    (root / f"{WANTS}/out.service").symlink_to(f"/{LIB}/out.service")
    (root / f"{LIB}/out.service").symlink_to("../../../../../secret.service")
    (root / "etc/kernel").mkdir()
    os.mkfifo(root / "etc/kernel/cmdline")
    os.mknod(root / f"{LIB}/zero.service", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    (root / f"{WANTS}/zero.service").symlink_to(f"/{LIB}/zero.service")
    (root / "boot/grub").mkdir()
    with open(root / "boot/grub/grub.cfg", "wb") as huge:
        huge.truncate(1 << 40)
    _deep(root / ETC)
    return root


def _deep(folder: Path) -> None:
    """Ten thousand folders, one in the other: deeper than any path can say."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(10_000):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
