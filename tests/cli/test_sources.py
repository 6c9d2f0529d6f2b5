"""Whatever holds samples is opened by what is in it; what does not is refused in one line."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest
from tests.naming.elf_file import TEXT_ADDRESS, ElfFile, Symbol
from tests.profile.captures import capture
from tests.profile.perf_data_file import KERNEL, PerfData, one_of_everything, text_fact
from tests.recorder.test_log_file import zstd

from zombiescope.cli._files import Asked
from zombiescope.cli._sources import Source, instant, opened
from zombiescope.core import UserError
from zombiescope.core.samples import Function, Who
from zombiescope.profile.about import line

EXTERNAL = Path(os.environ.get("ZOMBIESCOPE_EXTERNAL_DATA", Path(__file__).parents[2] / "../shared/data")) / "perf"
SCRIPT = b"""bash  7/7  [001] 12.500000: cpu-clock:
\tffffffff81000110 vfs_read+0x10 ([kernel.kallsyms])

"""


@pytest.mark.parametrize(
    ("content", "samples"),
    [(one_of_everything().file(), 6), (one_of_everything().piped(), 6), (SCRIPT, 1), (b"bash;main;work 42\n", 42)],
)
@pytest.mark.parametrize("name", ["perf.data", "notes.txt", "x.gz"])
def test_the_contents_say_what_a_file_is(tmp_path: Path, content: bytes, samples: int, name: str) -> None:
    for pack in (bytes, gzip.compress, bz2.compress, lzma.compress, zstd):
        path = tmp_path / name
        path.write_bytes(pack(content))
        source = opened(str(path))
        assert int(source.capture.weight.sum()) == samples
        assert (source.label, source.timeline) == (name, None)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"\x7fELF" + bytes(100), "begins with"),
        (b"PERFILE2" + bytes(100), "offset 8"),
        (gzip.compress(b"", mtime=0)[:-4], "damaged"),
        (b"\x1f\x8bnot gzip at all", "damaged"),
        (b"BZh not bzip2 at all", "damaged"),
        (lzma.compress(b"x;y 1\n")[:20], "damaged"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 50, "damaged"),
    ],
)
def test_what_holds_no_samples_is_refused_in_one_line(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "odd"
    path.write_bytes(content)
    with pytest.raises(UserError, match=why) as refused:
        opened(str(path))
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)


def test_kernel_functions_are_named_by_the_symbols_of_the_boot_it_was_made_in(tmp_path: Path) -> None:
    path, beside = tmp_path / "perf.data", tmp_path / "perf.data.kallsyms"
    path.write_bytes(one_of_everything().file(features={4: text_fact(b"4.4.0-another")}))
    found = opened(str(path)).capture
    assert "4.4.0-another" in found.notes[0] and found.frames[found.stack[-1]][-1].name == "0xffffffff81000210"
    beside.write_bytes(b"ffffffff81000000 T _text\nffffffff81000200 T vfs_read\nffffffff81000300 T do_idle\n")
    named = opened(str(path)).capture
    assert named.frames[named.stack[-1]][-1].name == "vfs_read"
    assert named.idle[named.stack].tolist() == [False, False, True, False, False, False]


def test_a_file_that_does_not_name_its_kernel_gets_no_names_of_this_machine_s(tmp_path: Path) -> None:
    path, given = tmp_path / "perf.data", tmp_path / "theirs"
    path.write_bytes(one_of_everything().file())
    found = opened(str(path)).capture
    assert found.frames[found.stack[-1]][-1].name == "0xffffffff81000210"
    assert found.notes[0].startswith("no kernel symbols of that boot: ") and "--kallsyms" in found.notes[0]
    given.write_bytes(b"ffffffff81000000 T _text\nffffffff81000200 T vfs_read\nffffffff81000300 T do_idle\n")
    named = opened(str(path), asked=Asked(kallsyms=str(given))).capture
    assert named.frames[named.stack[-1]][-1].name == "vfs_read"
    given.write_bytes(b"what is this\n")
    with pytest.raises(UserError, match="not a copy of /proc/kallsyms, nor a vmlinux: line 1"):
        opened(str(path), asked=Asked(kallsyms=str(given)))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize(("text", "samples"), [(SCRIPT.decode(), 1), ("bash;main;wörk 42\r\nbash 1\r\n", 43)])
def test_text_with_a_byte_order_mark(tmp_path: Path, text: str, samples: int, encoding: str) -> None:
    path = tmp_path / "powershell.txt"
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    path.write_bytes(mark + text.encode(encoding))
    found = opened(str(path)).capture
    assert int(found.weight.sum()) == samples and not found.notes
    assert "wörk" in found.frames.names(0) or samples == 1
    path.write_bytes((mark + text.encode(encoding))[:-1] + b"\xdc")  # cut in the middle of a character
    assert opened(str(path)).capture.weight.sum() >= 1


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("pipe", "not a regular file"), ("none", "no such file"), (".", "not a recording")):
        with pytest.raises(UserError, match=why):
            opened(str(tmp_path / name))


def test_a_gzipped_file_that_is_cut_off_is_shown_up_to_there(tmp_path: Path) -> None:
    made = one_of_everything()
    made.records *= 300
    path = tmp_path / "perf.data.gz"
    packed = gzip.compress(made.file(), 1)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    found = opened(str(path)).capture
    assert 0 < len(found) < 6 * 300
    assert "damaged after" in found.notes[0] and any("cut off: " in note for note in found.notes)


def test_a_folder_of_rolling_files_is_one(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"perf.data.2025010{number}").write_bytes(one_of_everything().file())
    (tmp_path / "perf.data.gz").write_bytes(gzip.compress(one_of_everything().file()))
    (tmp_path / "README").write_text("not one of them")
    (tmp_path / "perf.data").touch()  # what perf leaves before the first switch
    found = opened(str(tmp_path))
    assert len(found.capture) == 24 and found.label == tmp_path.name
    assert len(opened(*(str(tmp_path / f"perf.data.2025010{number}") for number in range(2))).capture) == 12


def test_files_of_two_clocks_are_not_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(one_of_everything().file())
    (tmp_path / "b").write_bytes(b"bash;main 3\n")
    with pytest.raises(UserError, match="cannot be joined"):
        opened(str(tmp_path / "a"), str(tmp_path / "b"))


def test_times_on_the_command_line() -> None:
    made = capture([(5_000_000_000, 0, Who(1, "a"), (Function("f", False),), 1)])
    assert instant("12.5", Source(made, "")) == 17_500_000_000
    assert instant("0.000000001", Source(made, "")) == 5_000_000_001
    for text in ("05:10", "-1", "soon", "1e3", "2025-01-01"):
        with pytest.raises(UserError, match="give seconds since it began"):
            instant(text, Source(made, ""))
    from dataclasses import replace

    unix = Source(replace(made, clock="unix"), "")
    assert instant("1700000000.5", unix) == 1_700_000_000_500_000_000
    assert instant("2025-03-04T05:06:07", unix) == 1_741_064_767_000_000_000
    assert instant("00:00:07", unix) == 7_000_000_000  # its own day, not today
    with pytest.raises(UserError, match="no times"):
        instant("1", Source(replace(made, clock="none"), ""))


@pytest.mark.skipif(not EXTERNAL.is_dir(), reason=f"no captures of others at {EXTERNAL}")
def test_every_capture_of_others_opens() -> None:
    files = sorted(EXTERNAL.iterdir())
    assert files
    for file in files:
        assert len(opened(str(file)).capture), file


def test_every_capture_of_others_says_what_it_is() -> None:
    if not EXTERNAL.is_dir():
        pytest.skip(f"no captures of others at {EXTERNAL}: set ZOMBIESCOPE_EXTERNAL_DATA")
    said = {path.name: line(opened(str(path)).capture) for path in sorted(EXTERNAL.iterdir())}
    assert len(said) >= 8 and all(it.startswith("text of perf script") for it in said.values()), said
    theirs = said["flamescope-perf.test01"]
    assert theirs.startswith(
        "text of perf script by perf 3.13.11 on i-xxx, Linux 3.13.0-105-generic: cpu-clock, 9 samples"
    )


def test_kernel_functions_are_named_by_a_vmlinux_wherever_it_was_loaded(tmp_path: Path) -> None:
    """The capture says that the kernel began at another address than its program does."""
    functions = {"_text": 0, "read_stat": 0x100, "vfs_read": 0x200}
    symbols = tuple(Symbol(name=name, value=TEXT_ADDRESS + at, size=0x80) for name, at in functions.items())
    vmlinux, path = tmp_path / "vmlinux", tmp_path / "perf.data"
    vmlinux.write_bytes(ElfFile(symbols=symbols, build_id=b"k" * 20).written())
    made = PerfData()
    base = 0xFFFFFFFF9A000000
    made.mmap(0, (1 << 32) - 1, base, 1 << 24, base, b"[kernel.kallsyms]_text", b"k" * 20, 1)
    made.sample(1, KERNEL, base + 0x110, base + 0x210)
    path.write_bytes(made.file())
    found = opened(str(path), asked=Asked(kallsyms=str(vmlinux))).capture
    assert [it.name for it in found.frames[0]] == ["vfs_read", "read_stat"]
    for build_id, given, why in ((b"x" * 20, symbols, "another build"), (b"k" * 20, (), "no symbols")):
        vmlinux.write_bytes(ElfFile(symbols=given, build_id=build_id).written())
        with pytest.raises(UserError, match=why):
            opened(str(path), asked=Asked(kallsyms=str(vmlinux)))
