"""What is told of a cgroup, decoded from records made up by hand."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from zombiescope.kernel.memcg_layout import RECORD
from zombiescope.kernel.memcg_offsets import Offsets
from zombiescope.kernel.memcg_records import MemoryCgroup, decode

ONLINE, DYING = 2, 16
Fields = Mapping[str, Any]


def made_up(*changes: Fields) -> bytes:
    records = np.zeros(len(changes), RECORD)
    for record, change in zip(records, changes, strict=True):
        for name, value in change.items():
            record[name] = value
    return records.tobytes()


def told(*changes: Fields, version: int = 1) -> list[MemoryCgroup]:
    zeroes = {field.name: 0 for field in dataclasses.fields(Offsets) if field.name != "lists"}
    bits = {"css_online": ONLINE, "css_dying": DYING, "css_released": 4, "swap_backed": 17}
    return decode(made_up(*changes), Offsets(lists=(), **(zeroes | bits)), version=version)


def test_one_met_twice_is_told_once_as_last_seen() -> None:
    root = {"serial": 1, "flags": ONLINE}
    seen = {"serial": 9, "parent": 1, "level": 1, "name": b"pod"}
    found = told(root, seen | {"flags": ONLINE}, root, seen | {"flags": DYING})
    assert [(cgroup.path, cgroup.dead, cgroup.children) for cgroup in found] == [("/", False, 1), ("/pod", True, 0)]


def test_a_name_ends_at_its_nul_and_keeps_bytes_that_are_no_text() -> None:
    [_root, cgroup] = told({"serial": 1}, {"serial": 2, "parent": 1, "name": b"a\xff\0 of a longer name before"})
    assert os.fsencode(cgroup.name) == b"a\xff"


def test_swap_is_counted_by_either_version() -> None:
    numbers = {"serial": 1, "memory": 5, "memsw": 12, "swap": 3, "kmem": 0, "tcpmem": 0}
    [first], [second] = told(numbers), told(numbers, version=2)
    assert (first.swap_pages, first.kmem_pages, first.socket_pages) == (7, 0, 0)
    assert (second.swap_pages, second.kmem_pages, second.socket_pages) == (3, None, None)
    [uncounted] = told(numbers | {"memsw": 0, "kmem": -1})
    assert (uncounted.swap_pages, uncounted.kmem_pages) == (None, None)


def test_a_reference_count_still_kept_per_cpu_is_not_told() -> None:
    [cgroup] = told({"serial": 1, "flags": DYING, "references": -(1 << 63) + 7})
    assert cgroup.references is None


FILE = {"page": 1, "file_inode": 77, "file_device": 254 << 20 | 3, "file_links": 1}
NAMED = FILE | {"file_name": b"x.log", "file_directory": b"logs"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (NAMED, "page cache: logs/x.log"),
        (NAMED | {"page_flags": 1 << 17}, "shmem: logs/x.log"),
        (NAMED | {"file_links": 0}, "page cache: logs/x.log (deleted)"),
        (FILE, "page cache: inode 77 on 254:3"),
        (FILE | {"file_name": b"memfd:x", "page_flags": 1 << 17, "file_links": 0}, "shmem: memfd:x (deleted)"),
        ({"page": 1, "mapping_bits": 1, "page_flags": 1 << 17}, "anonymous memory"),
        ({"page": 1}, "page cache"),
        ({"lru": (0, 0, 0, 0, 3)}, "locked memory"),
        ({"memory": 1, "memsw": 2}, "swap"),
        ({"tcpmem": 1}, "sockets"),
        ({"kmem": 1}, "slab/kernel memory"),
        ({"memory": 32}, "unknown"),
    ],
)
def test_what_pins_a_zombie_is_told_in_words(change: Fields, words: str) -> None:
    [_root, cgroup] = told({"serial": 1}, {"serial": 2, "parent": 1, "flags": DYING, **change})
    assert cgroup.pinned_by == words


def test_a_zombie_held_by_its_children_says_so() -> None:
    zombie = {"serial": 2, "parent": 1, "flags": DYING}
    assert told({"serial": 1}, zombie, {"serial": 3, "parent": 2, "flags": DYING})[1].pinned_by == "its children"
