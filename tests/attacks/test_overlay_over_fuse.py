"""An overlay is as local as its layers: one over a file system in a program, which has stopped, is not asked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.naming.programs import LOADER, children, compiled, library, name_at, running
from tests.naming.test_file_systems import served
from tests.waiting import until

from zombiescope.naming.file_systems import MountTables
from zombiescope.naming.namer import Namer

pytestmark = pytest.mark.beside

OFFSET = re.compile(r"libwalk\.so\+0x[0-9a-f]+")
# Mounts an overlay over the layers that it is given, and becomes a program whose root sees it.
OVERLAY = """
cd {layers} && mkdir -p {at} {work}/upper {work}/work
mount -t overlay overlay -o lowerdir={lower},upperdir={work}/upper,workdir={work}/work {at} || {{ echo refused; exit; }}
{then}
exec {loader} {at}/libwalk.so walk_far_away
"""


def asked_for(tmp_path: Path, lower: str, unshared: bool, then: str = "") -> None:
    """The daemon is stopped once the library is mapped: it has no name, and no thread waits for it."""
    loader, path = compiled(LOADER, tmp_path / "loader"), library("walk_far_away", tmp_path / "libwalk.so")
    at = tmp_path / "merged"
    script = OVERLAY.format(layers=tmp_path, lower=lower, at=at, work=tmp_path, loader=loader, then=then)
    own = ("unshare", "-m") if unshared else ()
    with served(path, tmp_path / "far") as daemon:
        try:
            with running(*own, "sh", "-c", script) as (process, words):
                if words == ["refused"] or not words:
                    pytest.skip(CANNOT + "mount an overlay over FUSE")
                os.kill(daemon, signal.SIGSTOP)
                try:
                    namer = Namer()
                    assert OFFSET.fullmatch(name_at(process.pid, int(words[0], 16), namer))
                    assert not namer.reads, "a read of it would not have returned"
                finally:
                    os.kill(daemon, signal.SIGCONT)
        finally:
            if not unshared:
                subprocess.run(["umount", "-l", str(at)], check=False)


def test_an_overlay_of_the_host_over_fuse(tmp_path: Path) -> None:
    """A snapshotter in a program has stopped: the lower layer of a container."""
    asked_for(tmp_path, f"{tmp_path}/far", unshared=False)


def test_an_overlay_whose_lower_layer_is_a_link_to_fuse(tmp_path: Path) -> None:
    """The layer is a link, as docker's are, and leads to FUSE."""
    (tmp_path / "link").symlink_to("far")
    asked_for(tmp_path, f"{tmp_path}/link", unshared=False)


def test_an_overlay_with_a_layer_that_cannot_be_found(tmp_path: Path) -> None:
    """The layer's path begins in a folder that nobody knows later."""
    asked_for(tmp_path, "far", unshared=False)


def test_an_overlay_of_a_container_that_hides_what_is_below(tmp_path: Path) -> None:
    """In a mount namespace of its own a program mounts an overlay over FUSE, and then takes FUSE off its table."""
    asked_for(tmp_path, f"{tmp_path}/far", unshared=True, then=f"umount -l {tmp_path}/far")


def test_fuse_that_was_taken_off_the_list_of_mounts(tmp_path: Path) -> None:
    """No overlay at all: a program maps a file of FUSE, and then takes FUSE off its list of mounts."""
    script = f"""
{{loader}} {tmp_path}/far/libwalk.so walk_far_away &
sleep 1; umount -l {tmp_path}/far; wait
"""
    loader, path = compiled(LOADER, tmp_path / "loader"), library("walk_far_away", tmp_path / "libwalk.so")
    with (
        served(path, tmp_path / "far") as daemon,
        running("unshare", "-m", "sh", "-c", script.format(loader=loader)) as (shell, (address,)),
    ):
        until(lambda: f"{tmp_path}/far " not in Path(f"/proc/{shell.pid}/mountinfo").read_text())
        os.kill(daemon, signal.SIGSTOP)
        try:
            namer, (pid,) = (
                Namer(),
                [it for it in children(shell.pid) if "loader" in Path(f"/proc/{it}/comm").read_text()],
            )
            assert OFFSET.fullmatch(name_at(pid, int(address, 16), namer))
            assert not namer.reads, "a read of it would not have returned"
        finally:
            os.kill(daemon, signal.SIGCONT)


def test_an_overlay_over_disks_is_read(tmp_path: Path) -> None:
    """And one of the host over local folders still is; also if a layer is counted from the folder of all layers."""
    loader = compiled(LOADER, tmp_path / "loader")
    library("walk_far_away", tmp_path / "layers" / "1" / "fs" / "libwalk.so")
    (tmp_path / "layers" / "2").mkdir()
    script = OVERLAY.format(
        layers=tmp_path / "layers",
        lower="1/fs",
        at=tmp_path / "merged",
        work=tmp_path / "layers" / "2",
        loader=loader,
        then="",
    )
    try:
        with running("sh", "-c", script) as (process, words):
            if words == ["refused"] or not words:
                pytest.skip(CANNOT + "mount an overlay")
            assert name_at(process.pid, int(words[0], 16)) == "walk_far_away"
            MountTables().of(str(process.pid)).check_path(f"{tmp_path}/merged/libwalk.so")
    finally:
        subprocess.run(["umount", "-l", str(tmp_path / "merged")], check=False)
