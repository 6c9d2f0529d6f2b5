"""Call bpf(2): make shared arrays, load programs, run them; through ctypes, without libbpf.

Attributes are packed by hand after include/uapi/linux/bpf.h, none longer than the oldest supported kernel knows it.
Refusals become Unreadable, with what is missing and how to fix it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.core.errors import Unreadable
from zombiescope.kernel.closing import Closing
from zombiescope.kernel.ebpf import INSTRUCTION_BYTES
from zombiescope.kernel.perf_open import PERF_EVENT_OPEN
from zombiescope.kernel.rights import CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, own_rights, text_of
from zombiescope.kernel.system_call import SystemCall

SOURCE = "bpf(2)"
TRACEPOINT, RAW_TRACEPOINT = 5, 17  # enum bpf_prog_type

BPF = SystemCall(SOURCE, {"x86_64": 321, "aarch64": 280})
_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _PROG_LOAD, _PROG_TEST_RUN, _RAW_TRACEPOINT_OPEN = 0, 1, 2, 5, 10, 17
_MAP_TAKE_BATCH = 25  # BPF_MAP_LOOKUP_AND_DELETE_BATCH
_HASH, _ARRAY, _PER_CPU_ARRAY = 1, 2, 6  # enum bpf_map_type
_MMAPABLE = 1 << 10
_TRACEPOINT_EVENT, _CLOEXEC = 2, 8  # PERF_TYPE_TRACEPOINT, PERF_FLAG_FD_CLOEXEC
_SET_BPF, _ENABLE = 0x40042408, 0x2400  # PERF_EVENT_IOC_…
_FIRST_KEY = bytes(4)
# The verifier allows most helpers that read kernel memory only for programs with a GPL-compatible license.
_LICENSE = b"Dual MIT/GPL"
_LOG_BYTES = 1 << 20

_LOCKDOWN = "/sys/kernel/security/lockdown"


class Array(Closing):
    """One value of `size` bytes shared by a program and this process; the program finds it by `descriptor`."""

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self._mapped: mmap.mmap | None = None
        # Since fc9702273e2e (v5.5) an array can be mapped, and reading it costs no system call; before, it is copied.
        try:
            self.descriptor = _create(_ARRAY, size, name, _MMAPABLE)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise _refused(error, "making an array") from None
            try:
                self.descriptor = _create(_ARRAY, size, name)
            except OSError as again:
                raise _refused(again, "making an array") from None
            return
        try:
            self._mapped = mmap.mmap(self.descriptor, size)
        except OSError as error:
            os.close(self.descriptor)
            raise _refused(error, "mapping an array") from None

    def read(self, size: int) -> bytes:
        """The first `size` bytes."""
        if self._mapped is not None:
            return self._mapped[:size]
        return _first_element(self.descriptor, _MAP_LOOKUP, ctypes.create_string_buffer(self.size)).raw[:size]

    def write(self, data: bytes) -> None:
        """Overwrite the first bytes."""
        if self._mapped is not None:
            self._mapped[: len(data)] = data
        else:
            whole = data + self.read(self.size)[len(data) :]
            _first_element(self.descriptor, _MAP_UPDATE, ctypes.create_string_buffer(whole, self.size))

    def close(self) -> None:
        if self._mapped is not None:
            self._mapped.close()
        os.close(self.descriptor)


class PerCpuArray(Closing):
    """A value of `size` bytes for each possible core: a program sees its own core's, and no other writes there."""

    def __init__(self, size: int, name: str, cores: int) -> None:
        if size % 8:
            raise ValueError(f"a value of {size} bytes: the kernel rounds it up to whole words of 8")
        self.size = size
        self._all = ctypes.create_string_buffer(size * cores)
        try:
            self.descriptor = _create(_PER_CPU_ARRAY, size, name)
        except OSError as error:
            raise _refused(error, "making an array for each core") from None

    def read(self) -> bytes:
        """The values of all possible cores, one after the other: one call."""
        return _first_element(self.descriptor, _MAP_LOOKUP, self._all).raw

    def clear(self) -> None:
        """Zero on all cores."""
        ctypes.memset(self._all, 0, len(self._all))
        _first_element(self.descriptor, _MAP_UPDATE, self._all)

    def close(self) -> None:
        os.close(self.descriptor)


class Table(Closing):
    """Values of `size` bytes by a key of eight, at most `most`; a program makes them, this process takes them out."""

    def __init__(self, size: int, name: str, most: int) -> None:
        self._most = most
        self._keys, self._values = ctypes.create_string_buffer(8 * most), ctypes.create_string_buffer(size * most)
        try:
            self.descriptor = _create(_HASH, size, name, key=8, most=most)
        except OSError as error:
            raise _refused(error, "making a table") from None

    def add(self, key: int) -> None:
        """A value of zeroes, so that a program finds it also where the table is full."""
        ours, nothing = ctypes.c_uint64(key), ctypes.create_string_buffer(len(self._values) // self._most)
        try:
            _call(_MAP_UPDATE, struct.pack("=IIQQQ", self.descriptor, 0, *map(ctypes.addressof, (ours, nothing)), 0))
        except OSError as error:
            raise _refused(error, "writing to a table") from None

    def take(self) -> tuple[memoryview[int], memoryview[int]]:
        """Keys and values, as words; the table is empty then. One call, since 057996380a42 (v5.6)."""
        place = ctypes.create_string_buffer(8)
        addresses = (0, *map(ctypes.addressof, (place, self._keys, self._values)))
        attributes = ctypes.create_string_buffer(
            struct.pack("=QQQQIIQQ", *addresses, self._most, self.descriptor, 0, 0)
        )
        try:
            BPF(_MAP_TAKE_BATCH, attributes, len(attributes))
        except OSError as error:
            if error.errno != errno.ENOENT:  # that is the table's end
                raise _refused(error, "reading a table") from None
        (found,), size = struct.unpack_from("=I", attributes, 32), len(self._values) // self._most
        keys, values = (ctypes.string_at(it, found * each) for it, each in ((self._keys, 8), (self._values, size)))
        return memoryview(keys).cast("Q"), memoryview(values).cast("Q")

    def close(self) -> None:
        os.close(self.descriptor)


def _first_element(descriptor: int, command: int, value: ctypes.Array[ctypes.c_char]) -> ctypes.Array[ctypes.c_char]:
    key = ctypes.create_string_buffer(_FIRST_KEY, len(_FIRST_KEY))
    attributes = struct.pack("=IIQQQ", descriptor, 0, ctypes.addressof(key), ctypes.addressof(value), 0)
    try:
        _call(command, attributes)
    except OSError as error:
        raise _refused(error, "reading or writing an array") from None
    return value


class Program(Closing):
    """A loaded program: of a raw tracepoint, which may read any kernel memory and be run on demand, or of a tracepoint.

    Whatever it is attached to is held by descriptors: it is detached when closed, or when this process dies.
    """

    def __init__(self, instructions: bytes, name: str, kind: int = RAW_TRACEPOINT) -> None:
        self._link: int | None = None
        try:
            self.descriptor = _load(instructions, name, kind, log=None)
        except OSError as error:
            raise _rejected(error, instructions, name, kind) from None
        # 72 bytes reach the last member this kind of run may set; all but the program stay zero.
        self._run = ctypes.create_string_buffer(struct.pack("=I68x", self.descriptor), 72)

    def run(self) -> None:
        """Run it once, now (since 1b4d60ec162f, v5.10)."""
        try:
            BPF(_PROG_TEST_RUN, self._run, len(self._run))
        except OSError as error:
            raise _refused(error, "running a program") from None

    def attach(self, tracepoint: str) -> None:
        """Run it each time a raw tracepoint is hit, until detached."""
        name = ctypes.create_string_buffer(tracepoint.encode())
        try:
            self._link = _call(_RAW_TRACEPOINT_OPEN, struct.pack("=QII", ctypes.addressof(name), self.descriptor, 0))
        except OSError as error:
            raise _refused(error, f"attaching to {tracepoint}") from None

    def attach_to_record(self, tracepoint: int) -> None:
        """Run it with each record of a tracepoint, known by its number, until detached."""
        # perf counts such an event for this thread only; the program is run for all threads on all cores.
        event = ctypes.create_string_buffer(struct.pack("=IIQ", _TRACEPOINT_EVENT, 112, tracepoint), 112)
        try:
            self._link = PERF_EVENT_OPEN(event, 0, -1, -1, _CLOEXEC)
            fcntl.ioctl(self._link, _SET_BPF, self.descriptor)
            fcntl.ioctl(self._link, _ENABLE, 0)
        except OSError as error:
            self.detach()
            raise _refused(error, f"attaching to tracepoint {tracepoint}") from None

    def detach(self) -> None:
        if self._link is not None:
            os.close(self._link)
            self._link = None

    def close(self) -> None:
        self.detach()
        os.close(self.descriptor)


def _call(command: int, attributes: bytes) -> int:
    return BPF(command, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes))


# Before 97306be45fbe (v5.11) maps and programs were charged to RLIMIT_MEMLOCK, 64 KB by default; the refusal was EPERM.
def _call_with_memory(command: int, attributes: bytes) -> int:
    try:
        return _call(command, attributes)
    except PermissionError as error:
        if error.errno != errno.EPERM:
            raise
    with _all_the_locked_memory_we_may_have():
        return _call(command, attributes)


@contextmanager
def _all_the_locked_memory_we_may_have() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    for limits in (unlimited, (before[1], before[1])):
        try:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, limits)
            break
        except (ValueError, OSError):  # raising the hard limit takes CAP_SYS_RESOURCE
            continue
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


def _create(kind: int, size: int, name: str, flags: int = 0, *, key: int = len(_FIRST_KEY), most: int = 1) -> int:
    attributes = struct.pack("=IIIIIII16s", kind, key, size, most, flags, 0, 0, name.encode()[:15])
    return _call_with_memory(_MAP_CREATE, attributes)


def _load(instructions: bytes, name: str, kind: int, log: ctypes.Array[ctypes.c_char] | None) -> int:
    code = ctypes.create_string_buffer(instructions, len(instructions))
    license_ = ctypes.create_string_buffer(_LICENSE)
    count = len(instructions) // INSTRUCTION_BYTES
    addresses = (ctypes.addressof(code), ctypes.addressof(license_))
    log_to = (0, 0, 0) if log is None else (1, len(log), ctypes.addressof(log))
    short = name.encode()[:15]
    return _call_with_memory(_PROG_LOAD, struct.pack("=IIQQIIQII16s", kind, count, *addresses, *log_to, 0, 0, short))


# Loaded once more with the verifier's log only after a refusal: writing the log makes verifying several times slower.
def _rejected(error: OSError, instructions: bytes, name: str, kind: int) -> Unreadable:
    if error.errno in (errno.EPERM, errno.ENOSYS):
        return _refused(error, "loading a program")
    log = ctypes.create_string_buffer(_LOG_BYTES)
    try:
        os.close(_load(instructions, name, kind, log))
    except OSError as again:
        error = again
    lines = [
        line for line in log.value.decode(errors="replace").splitlines() if line and not line.startswith("processed ")
    ]
    verdict = f"the verifier refuses the program ({error.strerror}): {lines[-1] if lines else 'no reason given'}"
    locked = "; the kernel is locked down (confidentiality), which forbids reading its memory" if _locked_down() else ""
    return Unreadable(SOURCE, verdict + locked)


def _refused(error: OSError, doing: str) -> Unreadable:
    if error.errno in (errno.EPERM, errno.EACCES):
        return Unreadable(SOURCE, f"{doing} is not permitted: {_what_is_missing()}")
    if error.errno == errno.ENOSYS:
        return Unreadable(SOURCE, f"{doing}: the kernel was built without it, or a seccomp filter hides it")
    return Unreadable(SOURCE, f"{doing}: {error.strerror}")


def _what_is_missing() -> str:
    rights = own_rights()
    lacking = [name for name, it in {"CAP_BPF": CAP_BPF, "CAP_PERFMON": CAP_PERFMON}.items() if not rights.has(it)]
    # The two came with a17b53c4a4b5 and 980737282232 (v5.8); CAP_SYS_ADMIN includes both, then and now.
    if lacking and not rights.has(CAP_SYS_ADMIN):
        return f"needs CAP_BPF and CAP_PERFMON, or root; this process lacks {' and '.join(lacking)}"
    if rights.filtered:
        return "this process has the capabilities, but a seccomp filter (of its container or service) blocks it"
    if _locked_down():
        return "the kernel is locked down (confidentiality), which forbids reading its memory"
    return "this process has the capabilities, so a security module forbids it, or it is root in a user namespace only"


def _locked_down() -> bool:
    return "[confidentiality]" in text_of(_LOCKDOWN)
