"""Device nodes and FIFOs where a file is expected: none is opened, by any door that opens what others chose.

The node used is that of /dev/null. Were it a watchdog, to open it would restart the machine.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.attacks.opens import counted
from tests.files import write

from zombiescope.agent.settings import token
from zombiescope.audit.containers import container
from zombiescope.audit.log_tail import Place, Tail
from zombiescope.audit.pe_sections import section
from zombiescope.audit.stores import Store
from zombiescope.cli._agent_keys import _read as read_settings
from zombiescope.cli._files import Opened
from zombiescope.core import Host, Unreadable, UserError
from zombiescope.fleet.csv_rows import csv_rows
from zombiescope.gate._lists import _table
from zombiescope.gate._unpacked import root_folder
from zombiescope.members.outside import read_regular
from zombiescope.recorder.log_file import timeline_of_log
from zombiescope.recorder.meta import open_regular
from zombiescope.recorder.settle_segment import _open_regular

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes device nodes: run the tests as root")

ID = "b757" * 16


def log(path: Path) -> object:
    return Tail(Place(str(path.parent), f"/{path.name}", str(path))).new(1000)


def bundle(path: Path) -> object:
    place = path.parent / ID / "config.json"
    place.parent.mkdir(exist_ok=True)
    os.replace(path, place)
    try:
        return container(Host(), Store("containerd", str(path.parent)), ID)
    finally:
        os.replace(place, path)


def head(path: Path) -> object:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with _open_regular(path.name, folder) as file:
            return file.read()
    finally:
        os.close(folder)


def tar(path: Path) -> object:
    with root_folder(str(path)) as folder:
        return folder


DOORS: dict[str, Callable[[Path], object]] = {
    "a log of Ray": log,
    "a bundle's config.json": bundle,
    "a file of this machine": lambda path: Host().read(str(path)),
    "a file of an image": lambda path: Host(str(path.parent), live=False).read(f"/{path.name}"),
    "a file of the node, seen from a container": lambda path: Host(str(path.parent), live=True).read(f"/{path.name}"),
    "a short file": lambda path: Host(str(path.parent), live=True).read_short(f"/{path.name}"),
    "a kernel image": lambda path: section(Host(str(path.parent), live=False), f"/{path.name}", ".cmdline"),
    "a file of a recording": lambda path: open_regular(str(path)),
    "a head of a recording": head,
    "a kernel log": lambda path: timeline_of_log(str(path)),
    "samples": lambda path: Opened(str(path)),
    "a member": lambda path: read_regular(str(path)),
    "the agent's settings": lambda path: read_settings(str(path)),
    "a token": lambda path: token(str(path), "token"),
    "a list of the gate": lambda path: _table(str(path), set()),
    "a tar": tar,
    "a CSV": lambda path: list(csv_rows(str(path), 1000)),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", ["device", "fifo"])
def test_what_is_no_file_is_not_opened(kind: str, door: str, tmp_path: Path) -> None:
    """A character device, or a FIFO, where a file is expected."""
    path = tmp_path / "there"
    if kind == "device":
        os.mknod(path, 0o20600, os.makedev(1, 3))
    else:
        os.mkfifo(path, 0o600)
    held = os.open(path, os.O_RDWR)  # who opens the FIFO nevertheless waits for nobody
    try:
        os.write(held, b"x")
        with counted(path) as opens:
            with pytest.raises((Unreadable, UserError, OSError)):
                DOORS[door](path)
            assert opens() == 0
    finally:
        os.close(held)


@pytest.mark.beside
@pytest.mark.parametrize("door", ["a file of an image", "a kernel image", "a file of a recording"])
def test_a_device_that_takes_a_file_s_place_is_not_opened(door: str, tmp_path: Path) -> None:
    """A device that changes places with a file again and again, so that it was a file when it was looked at."""
    device, file, path = (tmp_path / name for name in ("device", "file", "there"))
    os.mknod(device, 0o20600, os.makedev(1, 3))
    file.write_bytes(b"x")
    path.write_bytes(b"x")
    ended = threading.Event()

    def swap() -> None:
        turn = tmp_path / "turn"
        while not ended.is_set():
            for each in (device, file):
                os.link(each, turn)
                os.replace(turn, path)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        with counted(device) as opens:
            for _ in range(20_000):
                with suppress(Unreadable, OSError):
                    found = DOORS[door](path)
                    if hasattr(found, "close"):
                        found.close()
                if opens():
                    break
            assert opens() == 0
    finally:
        ended.set()
        swapping.join()


@pytest.mark.beside
def test_a_folder_that_becomes_a_link_leads_nowhere(tmp_path: Path) -> None:
    """A folder of an image that changes places with a link to our own files while they are read."""
    write(tmp_path, {"image/etc/name": "theirs", "image/other/x": "", "ours/name": "ours"})
    (tmp_path / "image/link").symlink_to(tmp_path / "ours")
    host, ended = Host(str(tmp_path / "image"), live=False), threading.Event()

    def swap() -> None:
        etc, kept, link = (tmp_path / "image" / name for name in ("etc", "kept", "link"))
        while not ended.is_set():
            etc.rename(kept)
            link.rename(etc)
            etc.rename(link)
            kept.rename(etc)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(20_000):
            with suppress(Unreadable):
                assert host.read("/etc/name") == "theirs"
            with suppress(Unreadable):
                assert host.listing("/etc") == ["name"]
    finally:
        ended.set()
        swapping.join()


def test_a_store_is_read_where_it_is_a_file(tmp_path: Path) -> None:
    """The counter-proof: what is a file is opened, and its opening is counted."""
    path = tmp_path / ID / "config.json"
    write(tmp_path, {f"{ID}/config.json": json.dumps({"linux": {"cgroupsPath": "/a"}})})
    with counted(path) as opens:
        assert container(Host(), Store("containerd", str(tmp_path)), ID).cgroup == "/a"
        assert opens() == 1
