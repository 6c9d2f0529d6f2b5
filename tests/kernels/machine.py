"""One guest under QEMU: a kernel, a first process with its files, and what the guest wrote about itself."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kernels import initramfs
from tests.kernels.packages import Kernel, tool

BOOT_SECONDS = 115.0  # five times what is usual on two cores, and four such boots stay below eight minutes
SECONDS_A_CORE = 8.0  # more: all of them are emulated on the same two
_PR_SET_PDEATHSIG = 1
# 16-byte exchanges (feature 141) go wrong in QEMU 7.2: a 6.12 guest crashed in kmalloc. The kernel is told to do
# without them; they stay in the CPU model, as numpy may ask for them.
_APPEND = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable random.trust_cpu=on clearcpuid=141"
_PACE = 0.1  # seconds between two reads from a slow line
_CONNECTS = 30.0  # seconds in which QEMU connects to it


@dataclass(frozen=True, slots=True)
class Machine:
    """What a guest consists of, and what happens to it from outside."""

    first_process: Path
    files: dict[str, bytes] = field(default_factory=dict)
    cores: int = 2
    one_thread: bool = False  # all cores in one: slower, and no core runs what another is just patching
    append: str = ""  # for the kernel's command line
    options: tuple[str, ...] = ()  # of QEMU
    console_speed: int = 0  # bytes a second that its first serial line takes; 0: as many as come
    # Called with QEMU's process, and the file that the guest's second serial line goes to.
    outside: Callable[[subprocess.Popen[bytes], Path], None] | None = None
    seconds: float = BOOT_SECONDS
    memory: str = "1G"


def run(booted: Kernel, machine: Machine, folder: Path, label: str) -> dict[str, Any]:
    """What the guest answered, or the error that it ended with."""
    folder.mkdir(parents=True, exist_ok=True)
    console, result = folder / f"{label}.console", folder / f"{label}.json"
    result.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile(suffix=".cpio") as archive:
        initramfs.archive(Path(archive.name), machine.first_process, machine.files)
        ended = _qemu(booted.image, machine, archive.name, console, result)
    try:
        seen: dict[str, Any] = json.loads(result.read_bytes().splitlines()[-1])
    except (OSError, ValueError, IndexError):
        return {"release": label, "error": f"{ended}; from its console:\n{_telling(console)}"}
    return seen


# A panic is long, and what Python said before it is what one wants to know.
def _telling(console: Path) -> str:
    lines = console.read_text(errors="replace").splitlines() if console.exists() else []
    ours = [line for line in lines if line.strip() and not line.startswith("[")]
    kernels = [line for line in lines if line.startswith("[") and re.search(r"panic|BUG|Oops|RIP|memory", line)]
    return "\n".join([*ours[-20:], *kernels[:6]])


def _qemu(image: Path, machine: Machine, archive: str, console: Path, result: Path) -> str:
    # Of 16 cores in threads of their own, one now and then ran code that another was just patching: Oops: int3.
    threads = "single" if machine.cores > 4 or machine.one_thread else "multi"
    command = [tool("qemu-system-x86_64"), "-accel", f"tcg,thread={threads}", "-cpu", "max", "-m", machine.memory]
    command += ["-smp", str(machine.cores)]
    command += ["-display", "none", "-nodefaults", "-no-user-config", "-no-reboot"]
    line = console.with_suffix(".line")
    command += ["-serial", f"unix:{line}" if machine.console_speed else f"file:{console}", "-serial", f"file:{result}"]
    command += ["-kernel", str(image), "-initrd", archive, "-append", f"{_APPEND} {machine.append}", *machine.options]
    ended = threading.Event()
    if machine.console_speed:
        _slow_line(line, console, machine.console_speed, ended)
    guest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=_be_humble)
    if machine.outside:
        threading.Thread(target=machine.outside, args=(guest, result), daemon=True).start()
    try:
        _out, complaint = guest.communicate(timeout=machine.seconds + SECONDS_A_CORE * (machine.cores - 2))
        return f"the guest ended without a result ({guest.returncode}) {complaint.decode(errors='replace')}"
    except subprocess.TimeoutExpired:
        return "the guest was stopped: it took too long"
    finally:
        guest.kill()
        guest.wait()
        ended.set()
        line.unlink(missing_ok=True)


def _slow_line(line: Path, console: Path, speed: int, ended: threading.Event) -> None:
    """A socket that is read slowly: QEMU's serial port is not ready for the next byte until there is room.

    Of single bytes some 280 fit into it, so that at 960 a second the line is never still for half a second.
    """
    line.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(line))
    listening.listen(1)
    listening.settimeout(_CONNECTS)

    def drain() -> None:
        with listening, listening.accept()[0] as other, console.open("wb", buffering=0) as kept:
            other.setblocking(False)
            while not ended.is_set():
                time.sleep(_PACE)
                try:
                    kept.write(other.recv(int(speed * _PACE)))
                except BlockingIOError:
                    continue

    threading.Thread(target=drain, daemon=True).start()


# Others on this machine go first, and no guest outlives us, whatever ends us.
def _be_humble() -> None:
    os.nice(10)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
