"""Call perf_event_open(2): one sampling event on one core, as detailed as the kernel grants it; through ctypes.

Attributes are packed by hand after include/uapi/linux/perf_event.h, as long as Linux 4.8 knows them (112 bytes). What
later kernels added is requested and, if refused, left out. Refusals become Unreadable, with how to fix it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from zombiescope.core.errors import Unreadable
from zombiescope.kernel.rights import CAP_PERFMON, CAP_SYS_ADMIN, own_rights, text_of
from zombiescope.kernel.system_call import SystemCall

SOURCE = "perf_event_open(2)"
PERF_EVENT_OPEN = SystemCall(SOURCE, {"x86_64": 298, "aarch64": 241})
_CLOEXEC = 8
# type and config: cycles are counted by the PMU and sampled by NMI (x86); the clock is a timer, also when idle.
_EVENTS = {"cycles": (0, 0), "cpu-clock": (1, 0)}
_IP, _TID, _TIME, _CALLCHAIN, _CPU, _PERIOD, _CGROUP = 1, 1 << 1, 1 << 2, 1 << 5, 1 << 7, 1 << 8, 1 << 21
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HV, _MMAP, _COMM, _FREQ, _TASK, _WATERMARK = (
    1,
    1 << 5,
    1 << 6,
    1 << 8,
    1 << 9,
    1 << 10,
    1 << 13,
    1 << 14,
)
_SAMPLE_ID_ALL, _NO_KERNEL_CHAIN, _NO_USER_CHAIN, _MMAP2 = 1 << 18, 1 << 21, 1 << 22, 1 << 23
_COMM_EXEC, _USE_CLOCKID, _KSYMBOL, _NEW_CGROUPS, _BUILD_ID = 1 << 24, 1 << 25, 1 << 29, 1 << 32, 1 << 34
_FORMAT_LOST = 1 << 4

_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
_BOOT_OPTIONS = "/proc/cmdline"
# Only with it can an interrupt of the PMU come while interrupts are off. Read by kstrtobool, so in these spellings.
_PSEUDO_NMI = re.compile(r"(?:^|\s)irqchip\.gicv3_pseudo_nmi=(?:1|y|Y|on|t|T)")
# PROC_PID_INIT_INO: the number that the first pid namespace has had since 98f842e675f9 (v3.8).
_FIRST_PID_NAMESPACE = 0xEFFFFFFC


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What is sampled, and what each record holds."""

    name: str  # "cycles" or "cpu-clock"
    hz: int
    kernel: bool  # the kernel's own code too
    user: bool  # the call chains of processes
    cgroup: bool = False  # since 6546b19f95ac (v5.7), if built with CONFIG_CGROUP_PERF
    ksymbol: bool = False  # BPF programs as they are loaded; since 76193a94522f (v5.1)
    build_id: bool = False  # of what is mapped; since 88a16a130933 (v5.12)
    counts_lost: bool = False  # read(2) gives the number of lost records; since 119a784c8127 (v6.0)

    def open(self, cpu: int, wake_at: int = 0) -> int:
        """A descriptor of this event on one core, not yet counting; OSError if refused.

        poll(2) reports it when its ring holds `wake_at` bytes.
        """
        attributes = ctypes.create_string_buffer(self._attributes(wake_at), 112)
        return PERF_EVENT_OPEN(attributes, -1, cpu, -1, _CLOEXEC)

    def _attributes(self, wake_at: int) -> bytes:
        kind, config = _EVENTS[self.name]
        sample = _IP | _TID | _TIME | _CPU | _PERIOD | _CALLCHAIN | (_CGROUP if self.cgroup else 0)
        flags = _DISABLED | _EXCLUDE_HV | _FREQ | _SAMPLE_ID_ALL | _USE_CLOCKID
        # mmap next to mmap2: the kernel sends neither before someone asked for the older one (nr_mmap_events).
        flags |= _MMAP | _MMAP2 | _COMM | _COMM_EXEC | _TASK | (_BUILD_ID if self.build_id else 0)
        # New cgroups with their paths came with the cgroup of a sample (96aaab686505, v5.7).
        flags |= (_KSYMBOL if self.ksymbol else 0) | (_NEW_CGROUPS if self.cgroup else 0)
        flags |= (0 if self.kernel else _EXCLUDE_KERNEL | _NO_KERNEL_CHAIN) | (0 if self.user else _NO_USER_CHAIN)
        flags |= _WATERMARK if wake_at else 0
        lost = _FORMAT_LOST if self.counts_lost else 0
        start = struct.pack("=IIQQQQQ", kind, 112, config, self.hz, sample, lost, flags)
        return start + struct.pack("=I40xi16x", wake_at, time.CLOCK_MONOTONIC)


def richest(cpus: Sequence[int], hz: int, user: bool) -> Event:
    """The most detailed event that this kernel grants this process on all those cores."""
    refused = OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    for kernel in (True, False):
        for name in _EVENTS:
            for extras in _fewer_and_fewer("cgroup", "ksymbol", "build_id", "counts_lost"):
                event = Event(name=name, hz=hz, kernel=kernel, user=user, **dict.fromkeys(extras, True))
                try:
                    # Different cores may have different PMUs, so cycles are tried on all. The clock exists everywhere.
                    for cpu in cpus if name == "cycles" else cpus[:1]:
                        os.close(event.open(cpu))
                    return event
                except OSError as error:
                    refused = error
                if refused.errno != errno.EINVAL:  # not for an attribute this kernel does not know
                    break
        if refused.errno not in (errno.EACCES, errno.EPERM):  # not for a lack of rights: asking for less is no help
            break
    raise refusal(refused)


def refusal(error: OSError) -> Unreadable:
    """In words, with how to fix it."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return Unreadable(SOURCE, f"sampling all processes is not permitted: {_what_is_missing()}")
    if error.errno == errno.ENOSYS:
        return Unreadable(SOURCE, "the kernel was built without CONFIG_PERF_EVENTS, or a seccomp filter hides it")
    if error.errno == errno.EMFILE:
        return Unreadable(SOURCE, "too many open files: two are needed for each core; raise the limit (ulimit -n)")
    return Unreadable(SOURCE, f"sampling a core: {(error.strerror or '').lower()}")


def blindness(
    event: Event, wanted_hz: int, machine: str = platform.machine(), boot_options: str | None = None
) -> tuple[str, ...]:
    """What an event cannot see, each in a sentence with how to fix it."""
    blind = []
    if not event.kernel:
        blind.append(
            "Kernel functions are not seen, as a security module forbids it to this process: "
            "permit it to sample the kernel (SELinux: perf_event { kernel })."
        )
    if event.name == "cpu-clock":
        blind.append(
            "Code that runs with interrupts off shows only as a gap between samples, as there is no hardware counter: "
            "use a machine with a PMU (most cloud providers offer it only on full-host sizes)."
        )
    options = text_of(_BOOT_OPTIONS) if boot_options is None else boot_options
    if event.name == "cycles" and machine == "aarch64" and not _PSEUDO_NMI.search(options):
        blind.append(
            "Code that runs with interrupts off is not sampled: this arm64 kernel samples by ordinary interrupts, "
            "and the sample comes when they are on again: boot with irqchip.gicv3_pseudo_nmi=1."
        )
    if not event.cgroup:
        blind.append(
            "Samples have no cgroup, as this kernel is older than 5.7 or built without CONFIG_CGROUP_PERF: "
            "use another kernel, or look the cgroup up by pid."
        )
    if not event.build_id:
        blind.append(
            "Mappings have no build ID, as this kernel is older than 5.12: "
            "use a newer one, or read the build ID from the file, which may have been replaced since."
        )
    if event.hz < wanted_hz:
        blind.append(
            f"Samples are taken {event.hz} times a second, not {wanted_hz}, as the kernel allows no more: "
            "raise kernel.perf_event_max_sample_rate."
        )
    if _pid_namespace() not in (0, _FIRST_PID_NAMESPACE):
        blind.append(
            "Processes outside this container all have the pid 0: run in the pid namespace of the host (hostPID: true)."
        )
    return tuple(blind)


def _fewer_and_fewer(*extras: str) -> Iterator[tuple[str, ...]]:
    for many in range(len(extras), -1, -1):
        yield from combinations(extras, many)


# perf_event_paranoid: above 0, sampling a core needs CAP_PERFMON (since 18aa18566218, v5.8; CAP_SYS_ADMIN includes it,
# then and now); above 2, on kernels patched by Debian and Ubuntu, everything does.
def _what_is_missing() -> str:
    rights = own_rights()
    if not rights.has(CAP_PERFMON) and not rights.has(CAP_SYS_ADMIN):
        paranoid = text_of(_PARANOID).strip() or "unknown"
        return (
            f"kernel.perf_event_paranoid is {paranoid}, and this process lacks CAP_PERFMON (before Linux 5.8: "
            "CAP_SYS_ADMIN); run it as root, give it that capability, or set kernel.perf_event_paranoid to 0"
        )
    if rights.filtered:
        return "this process has the capability, but a seccomp filter (of its container or service) blocks it"
    return "this process has the capability, so a security module forbids it, or it is root in a user namespace only"


def _pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # without /proc it cannot be known
        return 0
