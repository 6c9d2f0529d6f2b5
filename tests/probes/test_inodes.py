"""inodes: only file systems of this machine are asked, and only along names that are root's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.nodes import node, read

from zombiescope.core import Host, Unreadable
from zombiescope.diagnosis.examine import examine
from zombiescope.probes import inodes
from zombiescope.signs import table_full

TABLE = r"""20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
21 20 0:20 / /proc rw - proc proc rw
22 20 8:2 / /var\040data rw - xfs /dev/sda2 rw
23 20 0:40 / /net rw - nfs4 server:/x rw
24 23 8:3 / /net/inner rw - ext4 /dev/sda3 rw
25 20 8:4 / /image ro - ext4 /dev/sda4 ro
26 20 8:5 / /over rw - ext4 /dev/sda5 rw
27 26 0:41 / /over rw - fuse.s3fs s3fs rw
28 20 8:2 /part /again rw - xfs /dev/sda2 rw
29 20 0:42 / /run rw - tmpfs tmpfs rw,size=1024k
broken line
"""


def test_what_may_be_asked() -> None:
    found = inodes.local(inodes.parse(TABLE))
    assert [(it.place, it.kind) for it in found] == [("/", "ext4"), ("/var data", "xfs"), ("/run", "tmpfs")]


def test_a_table_that_leads_in_circles_ends() -> None:
    circle = "1 2 8:1 / /a rw - ext4 x rw\n2 1 8:2 / /b rw - ext4 x rw\n"
    assert inodes.local(inodes.parse(circle)) == []


def test_names_that_others_could_change_are_not_followed(tmp_path: Path) -> None:
    seen = os.stat(tmp_path).st_dev
    device = f"{os.major(seen)}:{os.minor(seen)}"
    if os.geteuid() or not os.statvfs(tmp_path).f_files:
        pytest.skip("needs root, and a file system with a limit of inodes")
    mine = tmp_path / "mine"
    (mine / "disk").mkdir(parents=True)
    owned = [it for it in (mine, *mine.parents) if os.stat(it).st_uid]
    assert (inodes._counted(str(mine / "disk"), device) is not None) == (not owned)
    assert inodes._counted(str(mine / "disk"), "0:0") is None
    os.chown(mine, 1000, 1000)
    assert inodes._counted(str(mine / "disk"), device) is None
    (tmp_path / "link").symlink_to(mine)
    assert inodes._counted(str(tmp_path / "link" / "disk"), device) is None


def test_this_machine_and_a_copy(tmp_path: Path) -> None:
    for it in inodes.read(Host()):
        assert it.value >= 0 and it.subject.startswith("mount:/")
    with pytest.raises(Unreadable):
        list(inodes.read(Host(str(tmp_path), live=False)))


@pytest.mark.parametrize(("used", "state"), [(500.0, "clear"), (1_000.0, "found")])
def test_a_file_system_without_inodes_left(used: float, state: str) -> None:
    counted = [
        it
        for at in (0.0, 60.0)
        for it in (
            read("inodes_used", "mount:/var", used, at),
            read("inodes_limit", "mount:/var", 1_000, at),
            read("table_used", "table:threads", 10, at),
        )
    ]
    result = examine(node(counted), signs={"table_full": table_full}, laws={})
    assert result.verdicts[0].state == state
    assert [it.says for it in result.root_causes] == ["used 1,000 of at most 1,000 inodes of /var"] * (state == "found")
