"""A short list for a person: processes, functions by self time, the hottest stacks; or what changed most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import IO

from zombiescope.core import harmless
from zombiescope.profile.about import told, when
from zombiescope.profile.picture import Picture
from zombiescope.profile.tree import Node

SUFFIX, BINARY, COMPARES = ".txt", False, True
PROCESSES, FUNCTIONS, STACKS, DEEP = 5, 15, 5, 8  # lines of each, and frames of a stack
_Key = tuple[str, str, str]  # name, kind, module


def write(picture: Picture, out: IO[bytes]) -> None:
    for line in _lines(picture):
        out.write(f"{line}\n".encode("utf-8", "backslashreplace"))


def _lines(picture: Picture) -> Iterator[str]:
    capture, now, before = picture.capture, picture.now.all, picture.before.all
    yield f"{harmless(capture.label)}: {told(now, capture)}{_span(picture)}"
    if picture.baseline is not None:
        yield f"baseline: {told(before, capture)}"
    processes: Counter[_Key] = Counter()
    processes_before: Counter[_Key] = Counter()
    functions: Counter[_Key] = Counter()
    functions_before: Counter[_Key] = Counter()
    for node, before_own, before_total in picture:
        key = (node.name, node.kind, node.module)
        if node.kind == "process":
            processes[key] += node.total
            processes_before[key] += before_total
        if node.kind != "root":
            functions[key] += node.own
            functions_before[key] += before_own
    yield from _table(picture, "processes", processes, processes_before, PROCESSES)
    yield from _table(picture, "functions, by self time", functions, functions_before, FUNCTIONS)
    if picture.baseline is None:
        yield from _stacks(picture)


def _span(picture: Picture) -> str:
    capture, chosen = picture.capture, picture.chosen
    if capture.clock == "none" or (not len(capture) and (chosen.start is None or chosen.end is None)):
        return ""
    start = capture.start if chosen.start is None else chosen.start
    end = capture.end if chosen.end is None else chosen.end
    return f", {max(end - start, 0) / 1e9:.3f} s from {when(start, capture)}"


def _table(picture: Picture, heading: str, now: Counter[_Key], before: Counter[_Key], most: int) -> Iterator[str]:
    """The largest; in a difference, those whose share changed most."""
    all_now, all_before = max(picture.now.all, 1), max(picture.before.all, 1)
    shares = {key: (before[key] / all_before, now[key] / all_now) for key in now.keys() | before.keys()}
    rises = {key: is_now - was for key, (was, is_now) in shares.items()}
    largest = sorted(shares, key=lambda key: (-abs(rises[key]), key))[:most]
    rows = []
    for key in largest:
        was, is_now = shares[key]
        if rises[key]:
            compared = "" if picture.baseline is None else f" {100 * rises[key]:+8.2f} points from {was:7.2%}"
            rows.append(f"  {is_now:7.2%}{compared}  {_called(key)}")
    if rows:
        yield f"\n{heading}"
        yield from rows


def _stacks(picture: Picture) -> Iterator[str]:
    """Innermost function first: what ran, and what called it."""
    nodes: list[Node] = [node for node, _, _ in picture]
    hottest = sorted(range(len(nodes)), key=lambda place: -nodes[place].own)[:STACKS]
    yield "\nhottest stacks"
    for place in hottest:
        if not nodes[place].own:
            return
        names, at = list[str](), place
        while nodes[at].kind != "root":
            names.append(harmless(nodes[at].name, most=120))
            at = nodes[at].parent
        process = names.pop()
        more = f" ← … {len(names) - DEEP} more" if len(names) > DEEP else ""
        yield f"  {nodes[place].own / max(picture.now.all, 1):7.2%}  {process}: {' ← '.join(names[:DEEP])}{more}"


def _called(key: _Key) -> str:
    name, kind, module = key
    where = "kernel" + (f" {module}" if module else "") if kind == "kernel" else module
    return harmless(name, most=120) + (f"  [{harmless(where, most=80)}]" if where else "")
