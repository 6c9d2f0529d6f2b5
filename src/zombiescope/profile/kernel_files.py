"""Which files named in profiles are the kernel's, as perf, pprof and people write them."""

from __future__ import annotations

import re

from zombiescope.core.samples import Function

KERNEL_FILE = "[kernel.kallsyms]"  # perf's name for the running kernel
UNKNOWN = "[unknown]"
# Mappings in brackets that are a process's own: proc(5), and perf's word for what it could not find.
_OWN = {"vdso", "vdso32", "vdsox32", "vsyscall", "vvar", "heap", "stack", "anon", "unknown", "uprobes", "bss", "others"}
_MODULE_FILE = re.compile(r"([^/]+)\.ko(?:\.(?:gz|xz|zst))?")
_MODULE = re.compile(r"\[([A-Za-z0-9_.-]{1,64})\]")  # MODULE_NAME_LEN is 56 on 64-bit machines


def kernel_module(file: str) -> str | None:
    """The kernel module that a file holds, "" for the kernel itself; None if the file is not the kernel's."""
    if file.startswith(("[kernel", "[guest.kernel", "/proc/kcore", "/proc/kallsyms")):
        return ""
    name = file.rsplit("/", 1)[-1]
    if name.startswith(("vmlinux", "vmlinuz")):
        return ""
    if name.startswith(("bpf_prog_", "[bpf_")) or name == "[bpf]":
        return "bpf"
    if found := _MODULE_FILE.fullmatch(name):
        return found[1].replace("-", "_")
    if (found := _MODULE.fullmatch(file)) and found[1] not in _OWN:
        return found[1]
    return None


def unnamed(file: str) -> str:
    """The name for all functions of a file that have none: the file's name in brackets."""
    name = file.removesuffix(" (deleted)").rsplit("/", 1)[-1]
    if file.startswith("["):
        return file
    return f"[{name}]" if name and file != "//anon" else UNKNOWN


def file_of(function: Function) -> str:
    """What to write as a function's file, so that readers can tell kernel from user; "" for unknown."""
    if not function.kernel:
        # A process may map a file with a name such as vmlinux: it still counts as user code.
        return function.module if kernel_module(function.module) is None else ""
    module = f"[{function.module}]"
    return module if function.module and kernel_module(module) == function.module else KERNEL_FILE
