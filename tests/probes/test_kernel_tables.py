"""dentry_state, slabinfo and mounts_count: the kernel's own tables, from text as kernels write it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import machine, told, unseen

from zombiescope.core import Host, Reading, Unparsable
from zombiescope.probes import dentry_state, mounts_count, slabinfo

SLABINFO = """\
slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> : slabdata <slabs>
ext4_inode_cache  116709 116732   1128   14    4 : tunables    0    0    0 : slabdata   8338   8338      0
odd name            3      5     10   14    4 : tunables    0    0    0 : slabdata   8338   8338      0
net_namespace          6      7   4288    7    8 : tunables    0    0    0 : slabdata      1      1      0
dentry            161635 161763    192   21    1 : tunables    0    0    0 : slabdata   7703   7703      0
"""
VOLUME = (
    "{n} 1093 0:511 / /var/lib/kubelet/pods/0c5f1a2b-1111-2222-3333-{n:012d}/volumes/token rw shared:5 "
    "- tmpfs tmpfs rw\n"
)
ROOT = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"


def test_names_and_files(tmp_path: Path) -> None:
    files = {"proc/sys/fs/dentry-state": "161580\t151531\t45\t0\t28955\t0\n", "proc/sys/fs/inode-nr": "132387\t7\n"}
    assert told(dentry_state, machine(tmp_path, files)) == {
        ("dentries", "node"): 161580,
        ("dentries_unused", "node"): 151531,
        ("dentries_negative", "node"): 28955,
        ("inodes", "node"): 132387,
        ("inodes_unused", "node"): 7,
    }


def test_before_linux_5_0_nobody_counts_names_that_do_not_exist(tmp_path: Path) -> None:
    host = machine(tmp_path, {"proc/sys/fs/dentry-state": "161580\t151531\t45\t0\t0\t0\n"})
    assert set(unseen(dentry_state, host)) == {"dentries_negative", "inodes", "inodes_unused"}


@pytest.mark.parametrize("text", ["", "1 2\n", "a b c d e f\n", "1 -2 3 4 5 6\n"])
def test_damaged_state(tmp_path: Path, text: str) -> None:
    with pytest.raises(Unparsable, match="dentry-state"):
        list(dentry_state.read(machine(tmp_path, {"proc/sys/fs/dentry-state": text})))


def test_slabs_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slabinfo, "TOP", 2)
    assert told(slabinfo, machine(tmp_path, {"proc/slabinfo": SLABINFO})) == {
        ("slab_cache_bytes", "cache:ext4_inode_cache"): 116732 * 1128,
        ("slab_cache_objects", "cache:ext4_inode_cache"): 116732,
        ("slab_cache_bytes", "cache:dentry"): 161763 * 192,
        ("slab_cache_objects", "cache:dentry"): 161763,
        ("network_namespaces", "node"): 6,
    }


def test_a_cache_may_have_any_name() -> None:
    assert slabinfo.parse(SLABINFO)["odd name"].objects == 5


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("dentry 1 2 3 4 5 : tunables\n", 1),
        (SLABINFO + "kmalloc-8 1 2 3\n", 7),
        (SLABINFO + "kmalloc-8 1 2 3 4 -5 : tunables\n", 7),
        (SLABINFO + "\n", 7),
    ],
)
def test_damaged_slabs(text: str, line: int) -> None:
    with pytest.raises(Unparsable) as caught:
        slabinfo.parse(text)
    assert caught.value.line == line


def test_mounts_are_counted_and_the_kind_is_named_that_has_most(tmp_path: Path) -> None:
    table = ROOT + "".join(VOLUME.format(n=n) for n in range(2999))
    host = machine(tmp_path, {"proc/1/mountinfo": table, "proc/sys/fs/mount-max": "100000\n"})
    found = told(mounts_count, host)
    assert found["mounts", "node"] == 3000 and found["mounts_limit", "node"] == 100000
    assert found["mounts_read_cpu_seconds", "node"] > 0
    (kind,) = (subject for what, subject in found if what == "mounts_alike" and "kubelet" in subject)
    assert kind == "family:/var/lib/kubelet/pods/<uid>/volumes/token (tmpfs)"
    assert found["mounts_alike", kind] == pytest.approx(2999, abs=5)


def test_without_root_our_own_table_is_counted(tmp_path: Path) -> None:
    host = machine(tmp_path, {"proc/self/mountinfo": ROOT})
    sources = {it.source for it in mounts_count.read(host) if isinstance(it, Reading) and it.what == "mounts"}
    assert sources == {"$ wc -l /proc/self/mountinfo"} and set(unseen(mounts_count, host)) == {"mounts_limit"}


@pytest.mark.parametrize("text", ["27 1 254:0 / /\n", "a line\n", ROOT + "\n"])
def test_a_damaged_table(tmp_path: Path, text: str) -> None:
    with pytest.raises(Unparsable, match="mountinfo"):
        list(mounts_count.read(machine(tmp_path, {"proc/1/mountinfo": text})))


def test_hostile_mount_points_are_carried(tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/mountinfo").write_bytes(b"27 1 254:0 / /mnt/\x1b[31m\xff rw - ext4 /dev/vda rw\n")
    host = Host(str(tmp_path), live=False)
    assert ("mounts_alike", "family:/mnt/\x1b[<n>m\udcff (ext4)") in told(mounts_count, host)
