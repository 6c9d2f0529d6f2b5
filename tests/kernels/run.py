"""Boot Debian's kernels under emulation, run our census in each, and check every name, parent and pinning file.

And one with 16 cores, in which the recorder runs and is killed.

Exit codes: 0 all right, 1 something was told wrong, 2 something needed is missing.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kernels import initramfs
from tests.kernels.judge import DISK, PAGE_CACHE, Plan, Verdict, judge, plan
from tests.kernels.many_cores import CORES, PLAN, judge_recording
from tests.kernels.packages import Kernel, Lacking, install_tools, kernel, tool

RIGHT, WRONG, MISSING = 0, 1, 2
BOOT_SECONDS = 115.0  # five times what is usual on two cores, and four such boots stay below eight minutes
SECONDS_A_CORE = 8.0  # more: all of them are emulated on the same two
_PR_SET_PDEATHSIG = 1
_GUEST = Path(__file__).with_name("guest.py")
# 16-byte exchanges (feature 141) go wrong in QEMU 7.2: a 6.12 guest crashed in kmalloc. The kernel is told to do
# without them; they stay in the CPU model, as numpy may ask for them.
_APPEND = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable random.trust_cpu=on clearcpuid=141"
MANY = "cores"  # on the command line
MANY_SUITE = "trixie"
_HEADINGS = ("kernel", "cgroup", "to init", "in all", "expected", "named", "wrong", "longest batch", "verdict")


@dataclass(frozen=True, slots=True)
class Boot:
    """A kernel to boot, by the suite that has it, and the hierarchy to mount."""

    version: str
    suite: str
    hierarchy: int
    must: bool = True  # else it is tried, and its absence only told


BOOTS = (
    Boot("5.10", "bullseye", 1),
    Boot("6.1", "bookworm", 2),
    Boot("6.12", "trixie", 2),
    Boot("7.x", "sid", 2, must=False),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.kernels.run", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"only these: 5.10 6.1 6.12 7.x {MANY}")
    parser.add_argument("--keep", metavar="DIR", help="leave consoles and results there")
    args = parser.parse_args(argv)
    unknown = set(args.versions) - {boot.version for boot in BOOTS} - {MANY}
    if unknown:
        parser.error(f"no such kernel: {' '.join(sorted(unknown))}")
    boots = [boot for boot in BOOTS if not args.versions or boot.version in args.versions]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(WRONG))  # so that what is temporary gets removed
    started = time.monotonic()
    try:
        if platform.machine() != "x86_64":
            raise Lacking(
                f"kernels are booted with this machine's Python, which must be x86-64, not {platform.machine()}"
            )
        install_tools()
        initramfs.base()
    except Lacking as lacking:
        print(f"cannot boot kernels here: {lacking}", file=sys.stderr)
        return MISSING
    rows, code = [], RIGHT
    for boot in boots:
        try:
            row, right = _boot_and_judge(boot, kernel(boot.suite), args.keep)
            code = code if right else WRONG
        except Lacking as lacking:
            row = (boot.version, f"v{boot.hierarchy}", *("-",) * 6, f"not to be had: {lacking}")
            code = MISSING if boot.must and code == RIGHT else code
        rows.append(row)
    if rows:
        _print_table(rows)
    if not args.versions or MANY in args.versions:
        try:
            code = code if _record_and_kill(kernel(MANY_SUITE), args.keep) else WRONG
        except Lacking as lacking:
            print(f"{CORES} cores: not to be had: {lacking}", file=sys.stderr)
            code = code or MISSING
    print(f"{time.monotonic() - started:.0f} s")
    return code


def _boot_and_judge(boot: Boot, booted: Kernel, keep: str | None) -> tuple[tuple[str, ...], bool]:
    made = plan(boot.hierarchy, disk=booted.loop is not None)
    print(f"booting {boot.version}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zombiescope-kernels-") as folder:
        seen = _boot(booted, made, Path(keep or folder), boot.version)
    took = time.monotonic() - started
    verdict = judge(made, seen)
    for words in verdict.says:
        print(f"{boot.version}: {words}", file=sys.stderr)
    batch = max((walked["longest_batch_seconds"] for walked in seen.get("walks", ())), default=0.0)
    row = (
        seen["release"] if seen.get("release") else boot.version,
        f"v{boot.hierarchy}",
        f"{seen.get('init_at', 0):.0f} s",
        f"{took:.0f} s",
        str(verdict.expected),
        str(verdict.named),
        str(verdict.wrong),
        f"{batch * 1000:.1f} ms",
        _words(verdict),
    )
    return row, not verdict.wrong


def _record_and_kill(booted: Kernel, keep: str | None) -> bool:
    print(f"booting {CORES} cores", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zombiescope-kernels-") as folder:
        files = {"/record.json": json.dumps(PLAN).encode()}
        seen = _run(booted, files, Path(keep or folder), MANY, cores=CORES)
        wrong = judge_recording(seen, Path(keep or folder))
    for words in wrong:
        print(f"{CORES} cores: {words}", file=sys.stderr)
    print(f"{CORES} cores: recorded, killed, opened: {'WRONG' if wrong else 'right'}; {_cost(seen)}", end="")
    print(f"{time.monotonic() - started:.0f} s in all")
    return not wrong


def _cost(seen: dict[str, Any]) -> str:
    if "ran" not in seen:
        return ""
    status = dict(line.split(":", 1) for line in seen["status"].splitlines())
    kilobytes = sum(int(status[kind].split()[0]) for kind in ("RssAnon", "RssFile"))
    return f"{seen['ran']:.1f} s of emulated CPU, {kilobytes / 1000:.0f} MB; "


def _boot(booted: Kernel, made: Plan, folder: Path, label: str) -> dict[str, Any]:
    files = {"/plan.json": json.dumps(dataclasses.asdict(made)).encode()}
    if booted.loop is not None:
        on_disk = next(leak for leak in made.leaks if leak.kind == PAGE_CACHE)
        inside = on_disk.file.removeprefix(f"{DISK}/")
        files |= {"/loop.ko": booted.loop.read_bytes(), "/disk": initramfs.ext4_image(inside, len(on_disk.names))}
    return _run(booted, files, folder, label)


def _run(booted: Kernel, files: dict[str, bytes], folder: Path, label: str, cores: int = 2) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    console, result = folder / f"{label}.console", folder / f"{label}.json"
    result.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile(suffix=".cpio") as archive:
        initramfs.archive(Path(archive.name), _GUEST, files)
        ended = _qemu(booted.image, archive.name, console, result, cores)
    try:
        seen: dict[str, Any] = json.loads(result.read_bytes())
    except (OSError, ValueError):
        return {"release": label, "error": f"{ended}; from its console:\n{_telling(console)}"}
    return seen


# A panic is long, and what Python said before it is what one wants to know.
def _telling(console: Path) -> str:
    lines = console.read_text(errors="replace").splitlines() if console.exists() else []
    ours = [line for line in lines if line.strip() and not line.startswith("[")]
    kernels = [line for line in lines if line.startswith("[") and re.search(r"panic|BUG|Oops|RIP|memory", line)]
    return "\n".join([*ours[-20:], *kernels[:6]])


def _qemu(image: Path, archive: str, console: Path, result: Path, cores: int) -> str:
    # Of 16 cores in threads of their own, one now and then ran code that another was just patching: Oops: int3.
    threads = "multi" if cores <= 2 else "single"
    command = [tool("qemu-system-x86_64"), "-accel", f"tcg,thread={threads}", "-cpu", "max", "-m", "1G"]
    command += ["-smp", str(cores)]
    command += ["-display", "none", "-nodefaults", "-no-user-config", "-no-reboot"]
    command += ["-serial", f"file:{console}", "-serial", f"file:{result}"]
    command += ["-kernel", str(image), "-initrd", archive, "-append", _APPEND]
    machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=_be_humble)
    try:
        _out, complaint = machine.communicate(timeout=BOOT_SECONDS + SECONDS_A_CORE * (cores - 2))
        return f"the guest ended without a result ({machine.returncode}) {complaint.decode(errors='replace')}"
    except subprocess.TimeoutExpired:
        return "the guest was stopped: it took too long"
    finally:
        machine.kill()
        machine.wait()


# Others on this machine go first, and no guest outlives us, whatever ends us.
def _be_humble() -> None:
    os.nice(10)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _words(verdict: Verdict) -> str:
    return "; ".join(["WRONG" if verdict.wrong else "right", *verdict.remarks])


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    lines = [_HEADINGS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS) - 1)]
    for line in lines:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]))


if __name__ == "__main__":
    sys.exit(main())
