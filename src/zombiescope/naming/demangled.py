"""Names of functions as people write them, from the symbols of C++ and Rust; any other name is what it was.

Written here, not taken from a library: see docs/decisions.md. Every name is worked out once, and none for long: the
worst that a stranger's file can hold takes some milliseconds.
"""

from __future__ import annotations

from functools import lru_cache

LONGEST = 1000  # characters: a template may have ten thousand, and a page or a terminal shows a hundred
_LONGEST_SYMBOL = 4096  # those of the Rust compiler itself reach 1,222
_MOST = 32_768  # kept: of some 200 bytes each; a busy node has some thousand functions of C++ and Rust


def demangled(symbol: str) -> str:
    """The name that a symbol stands for, cut if it is too long; the symbol itself where it is not understood."""
    return _read(symbol) if symbol.startswith(("_Z", "_R")) else symbol


@lru_cache(_MOST)
def _read(symbol: str) -> str:
    from zombiescope.naming.mangled import Odd

    name = symbol
    try:
        if len(symbol) <= _LONGEST_SYMBOL:
            name = _name(symbol) or symbol
    except (Odd, RecursionError):
        pass
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _name(symbol: str) -> str:
    from zombiescope.naming.cplusplus import cplusplus  # these two take 15 ms to load, and most programs are C
    from zombiescope.naming.rust import LEGACY, legacy, v0

    if symbol.startswith("_R"):
        return v0(symbol)
    rust = LEGACY.fullmatch(symbol)
    return legacy(rust[1]) if rust is not None else cplusplus(symbol)
