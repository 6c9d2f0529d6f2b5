"""Folders with hundreds of thousands of names, as whoever may write there makes them: a few are read; that is said."""

from __future__ import annotations

import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.files import write

from zombiescope.audit import pod_logs
from zombiescope.audit.log_tail import Place, listing
from zombiescope.audit.pod_logs import pods
from zombiescope.core import Blind, Host, Unreadable
from zombiescope.core.host import MOST_NAMES
from zombiescope.kernel.open_links import links
from zombiescope.members.outside import listed
from zombiescope.probes import container_exits, containers, ray_logs
from zombiescope.recorder.tape import Tape
from zombiescope.signs import crash_looping_container, job_failure

MANY = 300_000
PEAK = 16 << 20  # bytes: 20,000 names as long as these take 4 MB; all of them 60
STORE = "run/containerd/io.containerd.runtime.v2.task/k8s.io"
LAST = "z" * 60  # of each name, so that memory shows how many were kept


@pytest.fixture(scope="module")
def crowded() -> Iterator[Path]:
    """A root on tmpfs with a crowded folder, /big, to which others lead."""
    root = Path(tempfile.mkdtemp(prefix="zstest-names-", dir="/dev/shm"))
    try:
        write(root, {"big/": "", "proc/2/comm": "kthreadd\n", "proc/7/comm": "x\n"})
        first = root / "big" / f"default_web-0_{LAST}"
        first.touch()
        folder = os.open(root / "big", os.O_RDONLY)
        for number in range(1, MANY):
            os.link(first.name, f"{number:06}{LAST}", src_dir_fd=folder, dst_dir_fd=folder)
        os.close(folder)
        for path in (STORE, "var/log/pods", "var/log/containers", "tmp/ray/session_x"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to("/big")
        exits = root / "var/lib/containerd/io.containerd.grpc.v1.cri"
        exits.mkdir(parents=True)
        (exits / "containers").symlink_to("/big")
        yield root
    finally:
        shutil.rmtree(root)


def host_of(root: Path) -> Host:
    return Host(str(root), live=False)


def refused(act: Callable[[], object]) -> bool:
    with pytest.raises(Unreadable, match="more than"):
        act()
    return True


def blind(readings: Iterator[object], what: str) -> bool:
    return any(isinstance(it, Blind) and it.what == what and "more than" in it.why for it in readings)


def left_out(root: Path) -> bool:
    found: list[str] = []
    return len(list(pods(host_of(root), found))) <= pod_logs.MOST and found == [pod_logs.SOURCE]


def listable(root: Path) -> bool:
    host_of(root).check_folder("/big")
    return True


LOOKS: dict[str, Callable[[Path], bool]] = {
    "a folder of logs": lambda root: (lambda it: it[1] and len(it[0]) == MOST_NAMES)(
        listing(Place(str(root), "/big", "/big"))
    ),
    "a folder of this machine": lambda root: refused(lambda: Host().listing(str(root / "big"))),
    "a folder of another root": lambda root: refused(lambda: host_of(root).listing("/var/log/pods")),
    "whether a folder can be listed": listable,
    "containers": lambda root: blind(containers.read(host_of(root)), "containers"),
    "containers' restarts": lambda root: blind(containers.read(host_of(root)), "container_restarts_total"),
    "containers' ends": lambda root: blind(container_exits.read(host_of(root)), "container_exit"),
    "pods": left_out,
    "links": lambda root: refused(lambda: links(Host(), str(root / "big"), 20_000)),
    "members": lambda root: refused(lambda: listed(str(root / "big"))),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_crowded_folder_costs_no_more_than_its_bound(look: str, crowded: Path) -> None:
    """300,000 names in a folder: so many are kept as the bound says, and what is left out is said."""
    tracemalloc.start()
    try:
        assert LOOKS[look](crowded)
        assert tracemalloc.get_traced_memory()[1] < PEAK
    finally:
        tracemalloc.stop()


def test_a_sign_is_blind_where_it_lacks_names(crowded: Path) -> None:
    """Its folders are filled, so that no restart and no end is seen: that is not called clear."""
    tape, host = Tape(), host_of(crowded)
    for probe in (containers, container_exits):
        for at in (1.0, 2.0):
            said = list(probe.read(host))
            for it in said:
                if not isinstance(it, Blind):
                    tape.add(it)
            tape.look(probe.__name__, probe.GIVES, at, [it for it in said if isinstance(it, Blind)])
    timeline = tape.timeline()
    for sign in (crash_looping_container, job_failure):
        found = list(sign.find(timeline))
        assert found and all(isinstance(it, Blind) for it in found)


def test_a_session_s_crowded_folder_is_said(crowded: Path) -> None:
    """A job fills the folder of Ray's logs, where another job's death is to be found."""
    (crowded / "logs").mkdir()
    os.rename(crowded / "big", crowded / "logs" / "logs")
    try:
        write(crowded, {"proc/7/comm": "raylet\n", "proc/7/cmdline": "raylet\0--node_id=a\0--log_dir=/logs\0"})
        (crowded / "proc/7/root").symlink_to("../../logs")
        assert blind(ray_logs.read(host_of(crowded)), "ray_event")
    finally:
        os.rename(crowded / "logs" / "logs", crowded / "big")
