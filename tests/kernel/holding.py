"""Hold a core's softirqs off for a while, for real: a program that the kernel runs with bottom halves disabled.

BPF_PROG_TEST_RUN of a packet program disables them while it runs, as code that takes a spin_lock_bh does. The
program reads the clock in a loop (bpf_loop), some millions of times; such a loop wants the types of its functions.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time

from zombiescope.kernel import bpf

_TEST_RUN, _BTF_LOAD, _PROG_LOAD, _SCHED_CLS, _BPF_LOOP, _KTIME = 10, 18, 5, 3, 181, 5
MOST = 1 << 23  # turns that the kernel allows


def _instruction(code: int, target: int = 0, source: int = 0, constant: int = 0) -> bytes:
    return struct.pack("<BBhi", code, target | source << 4, 0, constant)


def _program(turns: int) -> bytes:
    main = (
        _instruction(0xB7, 1, constant=turns),
        _instruction(0x18, 2, 4, constant=8 - 1 - 1),  # R2 = the function at instruction 8
        _instruction(0),
        _instruction(0xB7, 3),
        _instruction(0xB7, 4),
        _instruction(0x85, constant=_BPF_LOOP),
        _instruction(0xB7, 0),
        _instruction(0x95),
    )
    return b"".join((*main, _instruction(0x85, constant=_KTIME), _instruction(0xB7, 0), _instruction(0x95)))


def _types() -> bytes:
    names = b"\0int\0main\0turn\0"
    kinds = (
        struct.pack("<IIII", 1, 1 << 24, 4, 1 << 24 | 32),  # int
        struct.pack("<III", 0, 13 << 24, 1),  # int (*)()
        struct.pack("<III", 5, 12 << 24, 2),  # main
        struct.pack("<III", 10, 12 << 24, 2),  # turn
    )
    types = b"".join(kinds)
    return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(names)) + types + names


def _address(content: bytes, kept: list[object]) -> int:
    kept.append(buffer := ctypes.create_string_buffer(content, len(content)))
    return ctypes.addressof(buffer)


def _loaded(turns: int) -> int:
    kept: list[object] = []
    code, types = _program(turns), _types()
    known = bpf._call(_BTF_LOAD, struct.pack("=QQIIII", _address(types, kept), 0, len(types), 0, 0, 0))
    functions = struct.pack("=IIII", 0, 3, 8, 4)
    head = struct.pack("=IIQQ", _SCHED_CLS, len(code) // 8, _address(code, kept), _address(b"GPL\0", kept))
    rest = struct.pack("=IIQII16sIIIIQI4x", 0, 0, 0, 0, 0, b"hold", 0, 0, known, 8, _address(functions, kept), 2)
    return bpf._call(_PROG_LOAD, head + rest)


def hold(core: int, seconds: float, times: int) -> list[float]:
    """Hold off the softirqs of a core, so long, so often; how long each time really took."""
    os.sched_setaffinity(0, {core})
    probe, per_second = 1 << 17, 0.0
    kept: list[object] = []
    packet = _address(bytes(64), kept)

    def run(turns: int) -> float:
        program = _loaded(turns)
        asked = struct.pack("=IIIIQQII", program, 0, 64, 0, packet, 0, 1, 0).ljust(72, b"\0")
        began = time.thread_time()
        bpf._call(_TEST_RUN, asked)
        os.close(program)
        return time.thread_time() - began

    per_second = probe / min(run(probe) for _ in range(3))
    took = []
    for _ in range(times):
        took.append(run(min(int(per_second * seconds), MOST)))
        time.sleep(0.05)
    return took


if __name__ == "__main__":
    print(*hold(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
