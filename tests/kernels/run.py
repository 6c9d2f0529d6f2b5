"""Boot Debian's kernels under emulation, run our census in each, and check every name, parent and pinning file.

And one with 16 cores, in which the recorder runs and is killed.

Exit codes: 0 all right, 1 something was told wrong, 2 something needed is missing.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kernels import initramfs
from tests.kernels.faults import FAULTS, SUITE, Fault, answers, judge_fault, make
from tests.kernels.judge import DISK, PAGE_CACHE, Plan, Verdict, judge, plan
from tests.kernels.machine import Machine, run
from tests.kernels.many_cores import CORES, PLAN, judge_recording
from tests.kernels.packages import Kernel, Lacking, install_tools, kernel

RIGHT, WRONG, MISSING = 0, 1, 2
_GUEST = Path(__file__).with_name("guest.py")
MANY, ALL_FAULTS = "cores", "faults"  # on the command line; a dot and its name after the latter for one of them
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


_ASKED = (*(boot.version for boot in BOOTS), MANY, ALL_FAULTS, *(f"{ALL_FAULTS}.{it}" for it in FAULTS))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.kernels.run", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"only these: {' '.join(_ASKED)}")
    parser.add_argument("--keep", metavar="DIR", help="leave consoles and results there")
    args = parser.parse_args(argv)
    unknown = set(args.versions) - set(_ASKED)
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
    for name, fault in FAULTS.items():
        if not args.versions or {ALL_FAULTS, f"{ALL_FAULTS}.{name}"} & set(args.versions):
            try:
                code = code if _make_and_judge(fault, kernel(SUITE), args.keep) else WRONG
            except Lacking as lacking:
                print(f"{name}: not to be had: {lacking}", file=sys.stderr)
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
        seen = run(booted, Machine(_GUEST, files, CORES), Path(keep or folder), MANY)
        wrong = judge_recording(seen, Path(keep or folder))
    for words in wrong:
        print(f"{CORES} cores: {words}", file=sys.stderr)
    print(f"{CORES} cores: recorded, killed, opened: {'WRONG' if wrong else 'right'}; {_cost(seen)}", end="")
    print(f"{time.monotonic() - started:.0f} s in all")
    return not wrong


def _make_and_judge(fault: Fault, booted: Kernel, keep: str | None) -> bool:
    print(f"booting {ALL_FAULTS}.{fault.sign}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zombiescope-kernels-") as folder:
        seen = make(fault, booted, Path(keep or folder))
    wrong = judge_fault(fault, seen)
    for line in wrong:
        print(f"{fault.sign}: {line}", file=sys.stderr)
    for line in answers(fault, seen):
        print(f"  {line}")
    print(f"{fault.sign}: {'WRONG' if wrong else 'right'}; {time.monotonic() - started:.0f} s in all", flush=True)
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
    return run(booted, Machine(_GUEST, files), folder, label)


def _words(verdict: Verdict) -> str:
    return "; ".join(["WRONG" if verdict.wrong else "right", *verdict.remarks])


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    lines = [_HEADINGS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS) - 1)]
    for line in lines:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]))


if __name__ == "__main__":
    sys.exit(main())
