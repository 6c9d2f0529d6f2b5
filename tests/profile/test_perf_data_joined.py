"""Several files of one recorder, read as one."""

from __future__ import annotations

from tests.profile.perf_data_file import KERNEL, PerfData
from tests.profile.test_perf_data import OUTER, WORK, read, told

from zombiescope.profile.joined import joined


def test_several_files_are_one() -> None:
    first, second = PerfData(), PerfData()
    for made, at in ((first, 1000), (second, 500)):
        made.comm(0, 7, b"both")
        made.sample(at, KERNEL, WORK, pid=7)
        made.sample(at + 1, KERNEL, OUTER, pid=at)
    found = joined([read(first.file(), label="a"), read(second.file(), label="b")], "both")
    assert [row[::3] for row in told(found)] == [
        (500, "read_stat"),
        (501, "vfs_read"),
        (1000, "read_stat"),
        (1001, "vfs_read"),
    ]
    assert sorted(who.comm for who in found.whos) == [":1000", ":500", "both"]
