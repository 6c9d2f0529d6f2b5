"""Where the kernel's names of a perf.data file come from."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from zombiescope.naming import this_machine
from zombiescope.naming.kallsyms import Kernel

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="addresses are hidden from all but root")


@pytest.fixture
def kernel() -> Kernel:
    return Kernel(this_machine._running_text_base(), this_machine._running_build_id())


def kept(folder: Path, kernel: Kernel, old: bytes = b" do_idle\n", new: bytes = b" of_the_copy\n") -> Path:
    """perf's copy of kallsyms, with one name changed."""
    path = folder / ".debug" / "[kernel.kallsyms]" / kernel.build_id / "kallsyms"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(this_machine._running_text().replace(old, new))
    return path


def name_of_do_idle(folder: Path, kernel: Kernel) -> str:
    found = this_machine.Names(str(folder / "perf.data")).kernel(kernel, "")
    assert found is not None
    text = this_machine._running_text()
    line = text[: text.index(b" do_idle\n")].rpartition(b"\n")[2]
    return found.names(np.array([int(line[:16], 16) + 1], np.uint64))[0]


def test_perf_s_copy_of_this_kernel_serves(tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert name_of_do_idle(tmp_path, kernel) == "do_idle"
    path = kept(tmp_path, kernel)
    assert name_of_do_idle(tmp_path, kernel) == "of_the_copy"
    os.chown(path, 12345, 12345)  # anybody's
    assert name_of_do_idle(tmp_path, kernel) == "do_idle"


def test_a_copy_of_another_boot_does_not(tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = kept(tmp_path, kernel)
    moved = path.read_bytes().replace(f"{kernel.address:016x} ".encode(), f"{kernel.address - 4096:016x} ".encode())
    path.write_bytes(moved)
    assert name_of_do_idle(tmp_path, kernel) == "do_idle"
