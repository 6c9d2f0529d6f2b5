"""Folded stacks: `process;function;kernel_function_[k] 42`, as FlameGraph's scripts, speedscope and others read them.

A difference has two columns, the baseline's first, as `difffolded.pl -n` writes them: the baseline is scaled to the
size of the other.
"""

from __future__ import annotations

from functools import cache
from typing import IO

import numpy as np

from zombiescope.profile.picture import Picture, shown
from zombiescope.profile.tree import KINDS

SUFFIX, BINARY, COMPARES = ".folded", False, True


def write(picture: Picture, out: IO[bytes]) -> None:
    tree, now, before = picture.tree, picture.now, picture.before

    @cache
    def name_of(label: int) -> bytes:
        return _name(tree.names[label], KINDS[tree.kinds[label]])

    stacks: dict[bytes, tuple[int, int]] = {}  # two functions may have the same text: their counts are added
    path: list[bytes] = []
    kept = np.flatnonzero((now.total | before.total) * (tree.depth > 0))
    columns = (tree.label[kept], tree.depth[kept], now.own[kept], before.own[kept])
    for label, depth, own, was in zip(*(it.tolist() for it in columns), strict=True):
        path[depth - 1 :] = [name_of(label)]
        if own or was:
            stack = b";".join(path)
            known = stacks.get(stack)
            stacks[stack] = (own, was) if known is None else (known[0] + own, known[1] + was)
    if picture.baseline is None:
        out.writelines([b"%b %d\n" % (stack, own) for stack, (own, _) in stacks.items()])
    else:
        scale = picture.scale
        out.writelines([b"%b %d %d\n" % (stack, round(was * scale), own) for stack, (own, was) in stacks.items()])


def _name(name: str, kind: str) -> bytes:
    """A semicolon would end the name: FlameGraph writes a colon in its place."""
    safe = shown(name).replace(";", ":").encode()
    return safe + b"_[k]" if kind == "kernel" else safe
