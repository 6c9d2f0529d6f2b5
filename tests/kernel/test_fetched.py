"""Fixed files, held open and fetched: all of each, and the reason for one that is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.core import Host, Unreadable
from zombiescope.kernel.fetched import fetching, text_of, unpacked


def test_several_files_are_packed_with_the_reason_for_what_is_missing(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("a", "b", "c")]
    Path(files[0]).write_bytes(b"one\xff")
    Path(files[2]).write_bytes(b"")
    with fetching(Host(), files) as again:
        content = again()
        first, second, third = unpacked(content, files)
        assert (first, third) == (b"one\xff", b"") and text_of(first) == "one\udcff"
        assert isinstance(second, Unreadable)
        assert (second.source, second.why) == (files[1], "no such file or directory")
        Path(files[1]).write_bytes(b"now")
        assert unpacked(again(), files)[1] == b"now", "what was missing is looked for again"
    with pytest.raises(Unreadable, match="cut off"):
        unpacked(content[:-3], files)


def test_one_file_is_its_bytes_or_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with fetching(Host(), [str(path)]) as again:
        with pytest.raises(Unreadable, match="no such file"):
            again()
        path.write_bytes(b"1")
        assert again() == b"1"


def test_a_file_that_the_kernel_hands_out_in_pages_is_fetched_whole() -> None:
    with fetching(Host(), ["/proc/kallsyms"]) as again:
        whole = again()
    assert len(whole) > 100_000 and whole.endswith(b"\n")
    assert abs(len(whole) - len(Host().read_bytes("/proc/kallsyms"))) < 10_000
