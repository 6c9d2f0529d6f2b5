"""Places of addresses, from records and snapshots made by hand, and from this process."""

from __future__ import annotations

import ctypes
import os
import time
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.kernel.perf_changes import Comm, Exit, Fork, Mmap, Record
from zombiescope.naming import mappings
from zombiescope.naming.mappings import Mappings

PID = 7


def no_maps(pid: int) -> bytes:
    raise ProcessLookupError(pid)


def mapped(
    time_ns: int, path: str, address: int = 0x1000, length: int = 0x1000, offset: int = 0, pid: int = PID
) -> Mmap:
    return Mmap(time_ns, pid, address, length, offset, path, path.encode()[-2:], (0, 0), 0)


def execed(time_ns: int, pid: int = PID) -> Comm:
    return Comm(time_ns, pid, pid, "x", True)


def known(*records: Record) -> Mappings:
    found = Mappings(no_maps)
    found.feed(records)
    return found


class Place(NamedTuple):
    """Where an address is."""

    path: str
    build_id: bytes
    offset: int
    kind: str = "file"
    deleted: bool = False


def place(found: Mappings, pid: int, address: int, time_ns: int) -> Place | None:
    region = found.find(pid, address, time_ns)
    return (
        None if region is None else Place(region.path, region.build_id, region.at(address), region.kind, region.deleted)
    )


def path_at(found: Mappings, address: int, time_ns: int, pid: int = PID) -> str | None:
    region = found.find(pid, address, time_ns)
    return None if region is None else region.path


def test_an_address_is_a_place_in_what_was_last_mapped_there() -> None:
    found = known(execed(10), mapped(11, "/a", offset=0x4000), mapped(20, "/b", 0x1400, 0x400))
    assert place(found, PID, 0x1010, 30) == Place("/a", b"/a", 0x4010)
    assert place(found, PID, 0x1410, 30) == Place("/b", b"/b", 0x10)
    assert place(found, PID, 0x1810, 30) == Place("/a", b"/a", 0x4810)
    assert path_at(found, 0x1410, 15) == "/a", "at that time the other was not yet there"
    assert place(found, PID, 0x1010, 9) is None, "before the program began"
    assert place(found, PID, 0x2000, 30) is place(found, PID, 0xFFF, 30) is place(found, 8, 0x1010, 30) is None


def test_a_program_takes_the_place_of_another() -> None:
    found = known(execed(10), mapped(11, "/a"), execed(20), mapped(21, "/b", 0x3000))
    assert path_at(found, 0x1000, 19) == "/a" and path_at(found, 0x1000, 25) is None
    assert path_at(found, 0x3000, 25) == "/b"


def test_a_child_has_what_its_parent_had_and_goes_its_own_way() -> None:
    child = Fork(20, 8, 8, PID, PID)
    found = known(
        execed(10), mapped(11, "/a"), child, mapped(30, "/b"), mapped(40, "/c", pid=8), Exit(50, PID, PID, 1, 1)
    )
    assert (path_at(found, 0x1000, 35), path_at(found, 0x1000, 35, pid=8)) == ("/b", "/a")
    assert path_at(found, 0x1000, 45, pid=8) == "/c" and path_at(found, 0x1000, 45) == "/b"
    assert path_at(found, 0x1000, 60) == "/b", "it is gone, but its samples may still be asked for"


def test_a_thread_is_no_child() -> None:
    found = known(execed(10), mapped(11, "/a"), Fork(20, PID, 9, PID, PID), mapped(30, "/b", 0x5000))
    assert path_at(found, 0x1000, 31) == "/a" and path_at(found, 0x5000, 31) == "/b" and len(found) == 1


def test_records_of_another_core_may_be_late() -> None:
    found = known(execed(10), mapped(11, "/shell"), execed(21, pid=8), mapped(22, "/program", pid=8))
    found.feed([Fork(20, 8, 8, PID, PID)])
    assert path_at(found, 0x1000, 20, pid=8) == "/shell" and path_at(found, 0x1000, 23, pid=8) == "/program"


MAPS = (
    b"00400000-00401000 r--p 00000000 fe:00 1311                               /usr/bin/x\n"
    b"00401000-00402000 r-xp 00001000 fe:00 1311                               /usr/bin/x\n"
    b"00500000-00501000 r-xp 00000000 fe:00 1312                               /opt/my lib.so (deleted)\n"
    b"00600000-00601000 rwxp 00000000 00:00 0 \n"
    b"00700000-00701000 r-xs 00000000 00:01 9                                  /memfd:doublemapper (deleted)\n"
    b"7ffd3a1f2000-7ffd3a1f4000 r-xp 00000000 00:00 0                          [vdso]\n"
    b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"
    b"7ffd3a1f2000-7ffd"
)


def test_a_snapshot_tells_what_was_there_before() -> None:
    found = Mappings({PID: MAPS}.__getitem__)
    assert found.see([PID, 0, -1], time_ns=100) == 0 and len(found) == 1
    assert place(found, PID, 0x401010, 50) == Place("/usr/bin/x", b"", 0x1010)
    assert place(found, PID, 0x400010, 50) is None, "not executable"
    assert place(found, PID, 0x500010, 50) == Place("/opt/my lib.so", b"", 0x10, "file", True)
    assert place(found, PID, 0x600010, 50) == Place("", b"", 0x10, "jit")
    assert place(found, PID, 0x700010, 50) == Place("/memfd:doublemapper", b"", 0x10, "jit", True)
    assert place(found, PID, 0x7FFD3A1F2010, 50) == Place("[vdso]", b"", 0x10, "vdso")
    assert place(found, 12345, 0xFFFFFFFFFF600410, 50) == Place("[vsyscall]", b"", 0x410, "vsyscall")
    found.feed([mapped(200, "//anon", 0x401000)])
    assert path_at(found, 0x401010, 150) == "/usr/bin/x" and path_at(found, 0x401010, 201) == "//anon"


def test_records_older_than_the_snapshot_add_to_it_what_it_lacks() -> None:
    found = Mappings({PID: MAPS}.__getitem__)
    found.see([PID], time_ns=100)
    gone, there = mapped(60, "/gone", 0x800000), mapped(61, "/usr/bin/x", 0x401000, offset=0x1000)
    found.feed([execed(50), gone, there, mapped(62, "/replaced", 0x500000)])
    assert place(found, PID, 0x401010, 70) == Place("/usr/bin/x", b"/x", 0x1010)
    assert path_at(found, 0x800000, 70) == "/gone" and path_at(found, 0x500010, 70) == "/opt/my lib.so"
    assert path_at(found, 0x401010, 49) is None, "the snapshot is of the program that was begun at 50"


def test_a_process_that_is_gone_is_asked_for_once() -> None:
    asked: list[int] = []

    def maps(pid: int) -> bytes:
        asked.append(pid)
        raise FileNotFoundError

    found = Mappings(maps)
    assert found.see(range(1, 6), 10, at_most=3) == 0, "those that are gone cost little, and are no reason to stop"
    found.see(range(1, 6), 30)
    assert asked == [1, 2, 3, 4, 5] and found.knows(1) and place(found, 1, 0x1000, 50) is None
    found.feed([Fork(40, 1, 1, 99, 99)])  # the pid is used again, by a child of someone unknown
    assert not found.knows(1)
    found.see([1], 50)
    assert asked[5:] == [1]
    assert found.see(range(1000, 2000), 60, at_most=3) == 1000 - 3 * 16


def test_only_so_many_are_read_at_a_time() -> None:
    found = Mappings(lambda _: MAPS)
    assert found.see(range(1, 6), 10, at_most=3) == 2 and not found.knows(4)
    assert found.see(range(1, 6), 20, at_most=3) == 0 and found.knows(4)


def test_a_mapping_says_which_file_it_is() -> None:
    found = Mappings({PID: MAPS}.__getitem__)
    found.see([PID], time_ns=100)
    region = found.find(PID, 0x401010, 150)
    assert region is not None and (region.device, region.inode) == ((0xFE, 0), 1311)
    found.feed([Mmap(200, PID, 0x900000, 0x1000, 0, "/new", b"", (8, 1), 99)])
    region = found.find(PID, 0x900000, 250)
    assert region is not None and (region.device, region.inode) == ((8, 1), 99)


def test_those_that_ended_are_forgotten_first() -> None:
    found = Mappings(no_maps, most=3)
    for pid in (1, 2, 3):
        found.feed([execed(pid, pid=pid), mapped(pid, "/a", pid=pid)])
    found.feed([Exit(10, 2, 2, 1, 1), execed(11, pid=4)])
    assert [path_at(found, 0x1000, 20, pid=pid) for pid in (1, 2, 3)] == ["/a", None, "/a"]
    place(found, 1, 0x1000, 20)
    found.feed([execed(21, pid=5)])
    assert [path_at(found, 0x1000, 20, pid=pid) for pid in (1, 3)] == ["/a", "/a"] and len(found) == 3


def test_a_process_that_maps_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mappings, "MOST_REGIONS", 1000)
    found = known(execed(1, pid=1), mapped(2, "/a", pid=1), execed(1))
    for at in range(2000):
        found.feed([mapped(at + 2, "//anon", 0x1000 * at)])
    assert found._regions <= 1000


Step = tuple[int, int, int]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10), st.integers(1, 3)), max_size=30))
def test_pieces_are_those_of_the_plain_way(steps: list[Step]) -> None:
    """Against the plain way: look through all that was mapped, latest first."""
    found, regions = known(execed(0)), []
    for at, (start, length, number) in enumerate(steps):
        regions.append((at, start, start + length, str(number)))
        found.feed([mapped(at, f"/{number}", start, length)])
    for time_ns in (len(steps), len(steps) // 2):
        for address in range(42):
            covering = [f"/{name}" for at, start, end, name in regions if at <= time_ns and start <= address < end]
            assert path_at(found, address, time_ns) == (covering[-1] if covering else None)


changes = st.tuples(st.integers(1, 3), st.booleans(), st.integers(0, 30), st.integers(1, 10))


@given(
    st.lists(changes, max_size=20),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 42), st.integers(0, 20)), max_size=20),
)
def test_many_are_found_as_one_by_one(
    steps: list[tuple[int, bool, int, int]], asked: list[tuple[int, int, int]]
) -> None:
    found = known(execed(0, pid=1))
    for at, (pid, begins, start, length) in enumerate(steps):
        found.feed([execed(at, pid=pid) if begins else mapped(at, f"/{at}", start, length, pid=pid)])
    asked.append((1, 0xFFFFFFFFFF600010, 5))
    assert found.find_all(asked) == [found.find(*it) for it in asked]


def test_code_of_this_process_is_in_the_file_it_was_loaded_from() -> None:
    found = Mappings()
    found.see([os.getpid()], time.monotonic_ns())
    function = ctypes.cast(ctypes.CDLL(None).getppid, ctypes.c_void_p).value
    assert function is not None
    region = found.find(os.getpid(), function, time.monotonic_ns())
    assert region is not None and region.kind == "file" and "libc" in region.path
    assert region.inode == os.stat(region.path).st_ino
