"""Faults that only a guest can have: each is made in one and diagnosed there, with the fault and without."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kernels.machine import Machine, run
from tests.kernels.packages import Kernel

SUITE = "trixie"
_FIRST_PROCESS = Path(__file__).with_name("fault_guest.py")
_SHARED = Path(__file__).with_name("guest.py")  # what both first processes need
_DISK_BYTES = 200 << 20  # and nothing of it is stored
_NODES = ((768, 0), (512, 1))  # MB of each NUMA node, and its core
_REQUESTS = 25  # a second, that the slow disk takes: sixteen writers then wait 0.6 s each
_SECONDS = 300.0  # until a guest is stopped: three times what is usual, as it diagnoses two or three times
_PAUSE = 8.0  # seconds: the sign wants five
_STARTS = 14.0  # seconds that a diagnosis takes until it looks, in a guest whose cores are busy
_LINE = 960  # bytes a second, as 9,600 bits are


@dataclass(frozen=True, slots=True)
class Fault:
    """A sign, what the guest is made of, and what each diagnosis there must say."""

    sign: str
    looks: dict[str, str]  # by name of the diagnosis: the subject that is found, empty where the sign must be clear
    seconds: float = 8.0  # of each diagnosis
    plan: dict[str, Any] = field(default_factory=dict)
    cores: int = 2
    one_thread: bool = False
    append: str = ""
    disks: tuple[str, ...] = ()  # options of each
    options: tuple[str, ...] = ()
    memory: str = "1G"
    console_speed: int = 0
    outside: Callable[[subprocess.Popen[bytes], Path], None] | None = None
    innocent: tuple[str, ...] = ()  # signs that may not be accused, with the fault or without


def pause(qemu: subprocess.Popen[bytes], result: Path) -> None:
    """Stop the whole of QEMU for a while when the guest asks for it: no core runs, and the clocks go on."""
    while qemu.poll() is None and not (result.exists() and b'{"please": "stopped"}' in result.read_bytes()):
        time.sleep(0.1)
    qemu.send_signal(signal.SIGSTOP)
    time.sleep(_PAUSE)
    qemu.send_signal(signal.SIGCONT)


FAULTS = {
    it.sign: it
    for it in (
        Fault(
            "disk_stall",
            {"control": "", "fault": "disk:nvme1n1"},
            seconds=10.0,
            plan={"disks": {"control": "/dev/nvme0n1", "fault": "/dev/nvme1n1"}},
            disks=("", f"throttling.iops-total={_REQUESTS}"),
        ),
        Fault("slow_clock", {"tsc": "", "hpet": "clock:hpet"}, plan={"clocks": ["tsc", "hpet"]}),
        Fault(
            "vm_paused",
            {"control": "", "stopped": "node"},
            seconds=_STARTS + _PAUSE + _STARTS,
            plan={"after": _STARTS + _PAUSE},
            outside=pause,
        ),
        Fault(
            "console_flood",
            {"control": "", "fault": "console:ttyS0"},
            seconds=12.0,
            # It runs for minutes only, and may write to its log as often as it likes.
            plan={"options": ["--set", "console_flood.BOOT=0"]},
            one_thread=True,  # it printed until a tracepoint was switched on, and then there was an Oops
            append="printk.devkmsg=on",
            console_speed=_LINE,
        ),
        Fault(
            "numa_lopsided",
            {"control": "", "fault": "numa:1"},
            plan={"disk": "/dev/nvme0n1"},
            disks=("",),
            options=tuple(
                word
                for node, (size, core) in enumerate(_NODES)
                for word in (
                    *("-object", f"memory-backend-ram,id=memory{node},size={size}M"),
                    *("-numa", f"node,nodeid={node},cpus={core},memdev=memory{node}"),
                )
            ),
            memory=f"{sum(size for size, _core in _NODES)}M",
        ),
    )
}


def make(fault: Fault, booted: Kernel, folder: Path) -> dict[str, Any]:
    """Boot a guest with the fault, and give its diagnoses."""
    label, options = f"faults.{fault.sign}", list(fault.options)
    folder.mkdir(parents=True, exist_ok=True)
    for number, limits in enumerate(fault.disks):
        image = folder / f"{label}.{number}"
        image.write_bytes(b"")
        os.truncate(image, _DISK_BYTES)
        drive = f"file={image},format=raw,if=none,id=disk{number},cache=unsafe"
        options += ["-drive", f"{drive},{limits}" if limits else drive]
        options += ["-device", f"nvme,drive=disk{number},serial=disk{number}"]
    plan = {"fault": fault.sign, "seconds": fault.seconds, **fault.plan}
    files = {"/fault.json": json.dumps(plan).encode(), "/site/guest.py": _SHARED.read_bytes()}
    machine = Machine(
        _FIRST_PROCESS,
        files,
        fault.cores,
        fault.one_thread,
        f"psi=1 {fault.append}",
        tuple(options),
        fault.console_speed,
        fault.outside,
        _SECONDS,
        fault.memory,
    )
    return run(booted, machine, folder, label)


def judge_fault(fault: Fault, seen: dict[str, Any]) -> list[str]:
    """What is wrong, in words."""
    wrong = [str(seen["error"])] if "error" in seen else []
    for look, subject in fault.looks.items():
        answer = seen.get("looks", {}).get(look)
        if answer is None or "error" in answer:
            wrong.append(f"{look}: {answer['error'] if answer else 'was not diagnosed'}")
            continue
        found = {it["subject"] for it in answer["findings"] if it["sign"] == fault.sign}
        accused = {it["sign"] for it in answer["findings"] if it["accused"]}
        state, says = answer["verdicts"][fault.sign]
        if subject and found != {subject}:
            wrong.append(f"{look}: found {sorted(found) or 'nothing'}, not {subject}: {state}, {says}")
        elif subject and fault.sign not in accused:
            wrong.append(f"{look}: found, and not accused: {answer['root_causes']} {answer['unsure']}")
        elif not subject and (found or state != "clear"):
            wrong.append(f"{look}: should be clear, and is {state}: {says}")
        wrong += [f"{look}: {it} is accused" for it in fault.innocent if it in accused]
    return wrong


def answers(fault: Fault, seen: dict[str, Any]) -> list[str]:
    """What was found, a line for each diagnosis."""
    said = []
    for look, answer in seen.get("looks", {}).items():
        found = [f"{it['subject']} {it['says']}" for it in answer.get("findings", ()) if it["sign"] == fault.sign]
        said.append(f"{look}: {'; '.join(found) or ': '.join(answer.get('verdicts', {}).get(fault.sign, ()))}")
    return said
