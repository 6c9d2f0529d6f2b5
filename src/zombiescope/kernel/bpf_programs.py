"""BPF programs that the kernel has loaded: their kind, name and number, by bpf(2); without libbpf."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from zombiescope.kernel.bpf import BPF

# enum bpf_cmd and bpf_prog_type of include/uapi/linux/bpf.h
_NEXT_ID, _BY_ID, _INFO = 11, 13, 15
_KINDS = {
    2: "kprobe",
    5: "tracepoint",
    7: "perf event",
    17: "raw tracepoint",
    24: "raw tracepoint",
    26: "tracing",
    29: "LSM",
}
_INFO_BYTES = 80  # up to and with the name, since cb4d2b3f03d8 (v4.15)


class Loaded(NamedTuple):
    number: int
    kind: str  # empty for kinds that watch no other program: packets, cgroups, devices
    name: str  # at most 15 bytes; empty if its maker gave none
    uid: int  # of who loaded it


def loaded_programs(most: int) -> Iterator[Loaded]:
    """At most so many, the oldest first; raises OSError without CAP_SYS_ADMIN."""
    number = 0
    for _ in range(most):
        attributes = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 12)
        try:
            BPF(_NEXT_ID, attributes, len(attributes))
        except FileNotFoundError:
            return
        (number,) = struct.unpack_from("=I", attributes, 4)
        try:
            wanted = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 12)
            program = BPF(_BY_ID, wanted, len(wanted))
        except FileNotFoundError:
            continue  # it is gone
        try:
            yield _about(program)
        finally:
            os.close(program)


def _about(program: int) -> Loaded:
    info = ctypes.create_string_buffer(_INFO_BYTES)
    wanted = ctypes.create_string_buffer(struct.pack("=IIQ", program, len(info), ctypes.addressof(info)), 16)
    BPF(_INFO, wanted, len(wanted))
    kind, number = struct.unpack_from("=II", info)
    (uid,) = struct.unpack_from("=I", info, 48)
    name = info.raw[64:80].partition(b"\0")[0].decode("ascii", "replace")
    return Loaded(number, _KINDS.get(kind, ""), name, uid)
