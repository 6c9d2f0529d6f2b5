"""Names for whole profiles: kernel, files, JITs, what is missing, and which leaves are idle."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.naming.elf_file import TEXT_ADDRESS, TEXT_OFFSET, ElfFile, Symbol

from zombiescope.core.errors import Unreadable
from zombiescope.knowledge.functions import is_idle, named
from zombiescope.naming import symbols as module
from zombiescope.naming.contents import Held
from zombiescope.naming.debug_files import with_debug_file
from zombiescope.naming.kallsyms import Kallsyms
from zombiescope.naming.perf_map import PerfMap
from zombiescope.naming.symbols import KERNEL, OTHERS, Symbols

LIBC = "/usr/lib/libc.so.6"
BUILD_ID = bytes(range(20)).hex()
FILE = ElfFile(symbols=(Symbol(name="malloc", value=TEXT_ADDRESS, size=16),)).written()
KALLSYMS = b"ffffffff81000000 T _text\nffffffff81000100 T schedule\nffffffff81000200 T _etext\n"


class Files:
    """A reader that knows some files and remembers what it was asked for."""

    def __init__(self, **files: bytes) -> None:
        self.files, self.asked = files, list[str]()

    def __call__(self, path: str, build_id: str) -> bytes | None:
        self.asked.append(f"{path} {build_id}")
        return self.files.get(path.rsplit("/", 1)[-1].split(".")[0])


def test_files_are_read_once_and_when_needed() -> None:
    files = Files(libc=FILE)
    symbols = Symbols(read=files)
    assert files.asked == []
    for _ in range(3):
        assert symbols.user(LIBC, BUILD_ID, TEXT_OFFSET + 15) == "malloc"
        assert symbols.user("/another/libc.so.6", BUILD_ID, TEXT_OFFSET) == "malloc"
    assert symbols.users(LIBC, BUILD_ID, np.array([TEXT_OFFSET, 7], dtype=np.uint64)) == ["malloc", "libc.so.6+0x7"]
    assert files.asked == [f"{LIBC} {BUILD_ID}", f"/another/libc.so.6 {BUILD_ID}"]
    assert symbols.unresolved == {LIBC: 1}


def test_a_file_with_the_build_id_of_another_names_its_own_functions_only() -> None:
    functions = (Symbol(name="hostile", value=TEXT_ADDRESS, size=16),)
    symbols = Symbols(read=Files(libc=FILE, evil=ElfFile(symbols=functions).written()))
    assert symbols.user("/tmp/evil", BUILD_ID, TEXT_OFFSET) == "hostile"
    assert symbols.user(LIBC, BUILD_ID, TEXT_OFFSET) == "malloc"
    assert symbols.user("/gone/libc.so.6.of.others", BUILD_ID, TEXT_OFFSET) != "hostile"


def test_a_file_that_turns_up_under_another_path_is_used() -> None:
    symbols = Symbols(read=Files(libc=FILE))
    assert symbols.user("/gone/lib.so", BUILD_ID, TEXT_OFFSET) == "lib.so+0x1000"
    assert symbols.user(LIBC, BUILD_ID, TEXT_OFFSET) == "malloc"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (LIBC, "libc.so.6+0x1234"),
        ("/tmp/gone (deleted)", "gone+0x1234"),
        ("[vdso]", "[vdso]"),
        ("[vsyscall]", "[vsyscall]"),
        ("//anon", "[unknown]"),
        ("anon_inode:[perf_event]", "[unknown]"),
        ("/memfd:jit (deleted)", "[unknown]"),
        ("", "[unknown]"),
    ],
)
def test_without_the_file_there_is_still_a_name(path: str, name: str) -> None:
    symbols = Symbols(read=Files())
    assert symbols.user(path, "", 0x1234) == name
    assert Symbols().users(path, "", np.array([0x1234], dtype=np.uint64)) == [name]
    assert symbols.unresolved == {path: 1}


def test_a_report_can_say_what_is_missing() -> None:
    def unreadable(path: str, _build_id: str) -> bytes | None:
        raise Unreadable(path, "permission denied")

    stripped = ElfFile(symbols=()).written()
    files = Files(libc=FILE, stripped=stripped, script=b"#!/bin/sh\n" * 9)
    symbols = Symbols(read=files)
    other = "ff" * 20
    for path, build_id in ((LIBC, other), ("/stripped", ""), ("/script", ""), ("/absent", "")):
        symbols.user(path, build_id, 1)
        symbols.user(path, build_id, 1)
    assert symbols.unresolved == {LIBC: 2, "/stripped": 2, "/script": 2, "/absent": 2}
    assert symbols.why[LIBC] == f"another build: {BUILD_ID}, not {other}"
    assert "stripped" in symbols.why["/stripped"]
    assert "not an ELF file" in symbols.why["/script"]
    assert symbols.why["/absent"] == "not available"
    refused = Symbols(read=unreadable)
    refused.user("/secret", "", 1)
    assert refused.why["/secret"] == "permission denied"


def test_padded_build_ids_are_the_same() -> None:
    short = ElfFile(symbols=(Symbol(name="main", value=TEXT_ADDRESS, size=16),), build_id=b"\xab" * 16).written()
    symbols = Symbols(read=Files(program=short))
    assert symbols.user("/program", "AB" * 16 + "00" * 4, TEXT_OFFSET) == "main"


def test_kernel_addresses() -> None:
    symbols = Symbols(Kallsyms.parse(KALLSYMS))
    assert symbols.kernel(0xFFFFFFFF81000101) == "schedule"
    addresses = np.array([0xFFFFFFFF81000101, 5], dtype=np.uint64)
    assert symbols.kernels(addresses) == ["schedule", "[unknown]"]
    assert symbols.unresolved == {KERNEL: 1}


def test_a_kernel_that_hides_or_was_not_saved_is_told() -> None:
    hidden = Symbols(Kallsyms.parse(b"0000000000000000 T _text\n"))
    assert hidden.kernel(0xFFFFFFFF81000101) == Symbols().kernel(0xFFFFFFFF81000101) == "[unknown]"
    assert "kptr_restrict" in hidden.why[KERNEL]
    assert "no kallsyms" in Symbols().why[KERNEL]


def test_just_in_time_code() -> None:
    symbols = Symbols(perf_maps={7: PerfMap.parse(b"1000 10 jitted\n")})
    assert [symbols.jit(7, 0x1008), symbols.jit(7, 0x1010), symbols.jit(8, 0x1008)] == [
        "jitted",
        "[unknown]",
        "[unknown]",
    ]
    assert symbols.unresolved == {"perf-7.map": 1, "perf-8.map": 1}


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MOST_FILES", "_MOST_NAMES", "_MOST_COUNTED"):
        monkeypatch.setattr(module, name, 7)
    symbols = Symbols(read=lambda path, _: FILE if "good" in path else None)
    for number in range(50):
        assert symbols.user(f"/good{number}", "", TEXT_OFFSET) == "malloc"
        symbols.user(f"/bad{number}", "", number)
    assert len(symbols._files) == 7
    assert len(symbols._names) <= 7
    assert len(symbols.unresolved) <= 8
    assert symbols.unresolved[OTHERS] == 43
    assert sum(symbols.unresolved.values()) == 50
    monkeypatch.setattr(module, "_MOST_MEMORY", 1)
    assert symbols.user("/good", "", TEXT_OFFSET) == "malloc"
    assert len(symbols._files) == 1


def test_a_real_debug_file_names_a_stripped_program(tmp_path: Path) -> None:
    for tool in ("gcc", "objcopy", "strip", "nm"):
        if not shutil.which(tool):
            pytest.skip(f"this machine cannot: {tool} is not installed")
    source, program, debug = tmp_path / "a.c", tmp_path / "a", tmp_path / "a.debug"
    source.write_text("static __attribute__((noinline, used)) int hidden(int n) { return n * 3; } int main(void) {}\n")
    subprocess.run(["gcc", "-g", "-pie", "-fPIE", "-Wl,--build-id=sha1", "-o", program, source], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    # gcc's default layout places code at the same address in the file and in memory.
    offset = next(int(line.split()[0], 16) for line in listed.splitlines() if line.endswith(" hidden"))
    subprocess.run(["strip", program], check=True)
    stripped = Symbols(read=lambda path, _: Path(path).read_bytes())
    assert stripped.user(str(program), "", offset) == f"a+{offset:#x}"
    asked = []

    def door(path: str) -> Held:
        asked.append(path)
        return Held(debug.read_bytes())

    symbols = Symbols(
        read=lambda path, _: Path(path).read_bytes(), debug=lambda elf, path: with_debug_file(elf, path, door, door)
    )
    assert symbols.user(str(program), "", offset) == "hidden"
    assert [len(path.partition("/.build-id/")[2]) for path in asked] == [len("xx/.debug") + 38]


def test_idle_leaves() -> None:
    for idle in ("default_idle", "cpu_idle_poll.isra.0", "acpi_idle_do_entry [processor]", "intel_idle"):
        assert is_idle(idle)
    for busy in ("idle_cpu", "schedule", "net_rx_action", "select_idle_core.isra.0", "[unknown]", "", "acpi_idle"):
        assert not is_idle(busy)


def test_all_this_kernel_marks_as_idle_is_idle() -> None:
    """The kernel keeps what it idles in between two symbols: a witness that grows with the kernel."""
    path = Path("/proc/kallsyms")
    lines = [line.split() for line in path.read_text(errors="replace").splitlines()] if path.exists() else []
    order = [row[2] for row in lines]
    if "__cpuidle_text_start" not in order or "__cpuidle_text_end" not in order:
        pytest.skip("this machine cannot: its kernel does not mark where it idles")
    marked = order[order.index("__cpuidle_text_start") + 1 : order.index("__cpuidle_text_end")]
    functions = [name for name in marked if not name.startswith("__") and ".cold" not in name]
    assert [name for name in functions if not is_idle(name)] == []
    assert len(functions) > 3
    assert "default_idle" in named("idle")
