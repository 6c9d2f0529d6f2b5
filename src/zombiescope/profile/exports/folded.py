"""Folded stacks: `process;function;kernel_function_[k] 42`, as FlameGraph's scripts, speedscope and others read them.

A difference has two columns, the baseline's first, as `difffolded.pl -n` writes them: the baseline is scaled to the
size of the other.
"""

from __future__ import annotations

from typing import IO

from zombiescope.profile.picture import Picture, shown
from zombiescope.profile.tree import Node

SUFFIX, BINARY, COMPARES = ".folded", False, True


def write(picture: Picture, out: IO[bytes]) -> None:
    stacks: dict[str, tuple[int, int]] = {}  # two functions may have the same text: their counts are added
    path: list[str] = []
    for node, before, _ in picture:
        if node.kind == "root":
            continue
        path[node.depth - 1 :] = [_name(node)]
        if node.own or before:
            stack = ";".join(path)
            now, was = stacks.get(stack, (0, 0))
            stacks[stack] = (now + node.own, was + before)
    for stack, (now, was) in stacks.items():
        counts = f"{now}" if picture.baseline is None else f"{round(was * picture.scale)} {now}"
        out.write(f"{stack} {counts}\n".encode())


def _name(node: Node) -> str:
    """A semicolon would end the name: FlameGraph writes a colon in its place."""
    name = shown(node.name).replace(";", ":")
    return f"{name}_[k]" if node.kind == "kernel" else name
