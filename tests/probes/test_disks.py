"""Disks and I/O limits: captured text of both hierarchies, partitions left out, damaged lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.files import node_of
from tests.probes.machine import AT

from zombiescope.core import Host, Reading, Unparsable
from zombiescope.probes import diskstats, io_limits

DISKS = """
 254       0 vda 26405 6110 2000 9083 1089431 1303424 4000 2211302 3 414600 2240563 0 0 0 0 90210 20177
 254       1 vda1 26405 6110 2166938 9083 1 1 1 1 0 1 1
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 1 0 8 2 0 0 0 0 0 2 2
""".lstrip("\n")


def test_whole_disks_that_were_used() -> None:
    found = diskstats.parse(DISKS)
    assert found == {
        "vda": (1115836, 6000 * 512, 2220.385, 2240.563, 3),
        "nvme0n1": (1, 8 * 512, 0.002, 0.002, 0),
    }


@pytest.mark.parametrize("text", ["1 2\n", " 8 0 sda 1 2 3 4 5 6 7 8 9 10 x\n", " 8 0 sda 1 2 3 4 5 6 7 8 9 10\n"])
def test_damaged_lines(text: str) -> None:
    with pytest.raises(Unparsable):
        diskstats.parse(text)


def root(folder: Path, files: dict[str, str]) -> Host:
    return node_of(folder, {"at": str(AT), "proc/diskstats": DISKS} | files)


def test_limits_of_v2(tmp_path: Path) -> None:
    files = {
        "proc/self/mountinfo": "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/a/io.max": "254:0 rbps=max wbps=max riops=max wiops=120\n",
        "sys/fs/cgroup/a/io.stat": "254:0 rbytes=1 wbytes=2 rios=3 wios=400 dbytes=0 dios=0\n",
        "sys/fs/cgroup/b/io.max": "",
    }
    found = [it for it in io_limits.read(root(tmp_path, files)) if isinstance(it, Reading)]
    assert [(it.what, it.value, it.text) for it in found[:2]] == [
        ("cgroup_io_limit", 120, "/a vda wiops"),
        ("cgroup_io_total", 400, "/a vda wiops"),
    ]
    assert found[-1].what == "cgroups_with_io_limit" and found[-1].value == 1


def test_limits_of_v1(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/blkio/a/blkio.throttle"
    files = {"proc/self/mountinfo": "41 31 0:38 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"}
    files |= {f"{folder}.{kind}_device": "" for kind in ("read_bps", "write_bps", "read_iops")}
    files |= {f"{folder}.write_iops_device": "254:0 50\n", f"{folder}.io_service_bytes": "254:0 Write 4096\nTotal 9\n"}
    files |= {f"{folder}.io_serviced": "254:0 Read 3\n254:0 Write 77\n254:0 Total 80\nTotal 80\n"}
    limit, done, count = (it for it in io_limits.read(root(tmp_path, files)) if isinstance(it, Reading))
    assert (limit.value, done.value, count.value) == (50, 77, 1) and limit.subject == "iolimit:/a 254:0 wiops"


def test_damaged_limits() -> None:
    for text in ("8:0 rbps=x\n", "8:0 wiops=-1\n"):
        with pytest.raises(Unparsable):
            io_limits.parse_max(text)
    with pytest.raises(Unparsable):
        io_limits.parse_v1("8:0 x\n", "/x")
    with pytest.raises(Unparsable):
        io_limits.parse_stat("8:0 rios=x\n")
    with pytest.raises(Unparsable):
        io_limits.parse_serviced("8:0 Read x\n", ("riops", "wiops"), "/x")
