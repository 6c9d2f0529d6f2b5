"""The kernel's symbols from its program (vmlinux of a debug package), as /proc/kallsyms of a boot would have them."""

from __future__ import annotations

from zombiescope.core.errors import Unparsable
from zombiescope.naming.contents import Contents
from zombiescope.naming.elf import Elf
from zombiescope.naming.kallsyms import Kernel
from zombiescope.naming.kallsyms_text import KallsymsText

_BASES = ("_text", "_stext")  # what a capture says the address of


def kallsyms_of(vmlinux: Contents, source: str, kernel: Kernel | None) -> KallsymsText:
    """Moved to where the kernel was loaded, if the capture says it: KASLR. Unparsable if it is another build."""
    elf = Elf.parse(vmlinux, source)
    if kernel is not None and kernel.build_id and elf.build_id.rstrip("0") != kernel.build_id.lower().rstrip("0"):
        raise Unparsable(source, 0, f"another build: {elf.build_id or 'no build-id'}, not {kernel.build_id}")
    if elf.stripped:
        raise Unparsable(source, 0, "it has no symbols: give vmlinux of the kernel's debug package")
    functions = sorted(elf.functions)
    known = {name: start for start, _, name in functions}
    base = next((known[name] for name in _BASES if name in known), None)
    moved = kernel.address - base if kernel is not None and kernel.address and base is not None else 0
    lines = (f"{start + moved & (1 << 64) - 1:016x} T {name}\n" for start, _, name in functions)
    return KallsymsText("".join(lines).encode("utf-8", "surrogateescape"), source)
