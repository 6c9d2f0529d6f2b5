"""The freezer of both hierarchies, FUSE connections, dirty pages, stopped processes: captured text and damaged text."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.files import node_of
from tests.probes.machine import AT

from zombiescope.core import Blind, Host, Reading, Unparsable
from zombiescope.probes import freezer, fuse_connections, writeback


def root(folder: Path, files: dict[str, str]) -> Host:
    return node_of(folder, {"at": str(AT)} | files)


MOUNTS = "40 31 0:37 / /v1 rw - cgroup cgroup rw,freezer\n41 31 0:38 / /v2 rw - cgroup2 cgroup2 rw\n"


def test_only_the_topmost_frozen_cgroup_is_told(tmp_path: Path) -> None:
    files = {"proc/self/mountinfo": MOUNTS, "v1/a/freezer.state": "THAWED\n", "v1/b/freezer.state": "FREEZING\n"}
    files |= {"v2/pod/cgroup.events": "populated 1\nfrozen 1\n", "v2/pod/inside/cgroup.events": "frozen 1\n"}
    files |= {"v2/old/cgroup.events": "populated 1\n", "v2/odd/cgroup.events": "frozen x\n"}
    found = list(freezer.read(root(tmp_path, files)))
    told = [(it.what, it.subject, it.value) for it in found if isinstance(it, Reading)]
    assert sorted(told[:-1]) == [("cgroup_frozen", "cgroup:/b", 1), ("cgroup_frozen", "cgroup:/pod", 1)]
    assert told[-1] == ("cgroups_frozen", "node", 2)
    assert [it.subject for it in found if isinstance(it, Blind)] == ["cgroup:/odd"]


def test_a_state_that_is_not_known() -> None:
    with pytest.raises(Unparsable):
        freezer.is_frozen("LUKEWARM\n", "/x", 1)


def test_requests_that_a_fuse_daemon_did_not_answer(tmp_path: Path) -> None:
    mounts = "61 27 0:52 / /mnt/data rw - fuse.s3fs s3fs rw\n62 27 0:53 / /sys/fs/fuse/connections rw - fusectl x rw\n"
    files = {"proc/self/mountinfo": mounts, "sys/fs/fuse/connections/52/waiting": "3\n"}
    files |= {"sys/fs/fuse/connections/99/waiting": "0\n"}
    found = [it for it in fuse_connections.read(root(tmp_path, files)) if isinstance(it, Reading)]
    assert [(it.subject, it.value) for it in found] == [
        ("mount:/mnt/data", 3),
        ("mount:FUSE connection 99", 0),
        ("node", 2),
    ]
    files["sys/fs/fuse/connections/52/waiting"] = "x\n"
    with pytest.raises(Unparsable):
        list(fuse_connections.read(root(tmp_path, files)))


def test_dirty_pages() -> None:
    assert writeback.parse("nr_dirty 63\nnr_writeback 2\npgfault 9\n") == {"dirty_pages": 63, "writeback_pages": 2}
    for text in ("", "pgfault 1\n", "nr_dirty x\n"):
        with pytest.raises(Unparsable):
            writeback.parse(text)
