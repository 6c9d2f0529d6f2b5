"""How the kernel writes numbers and lists in its text files: lines, counts, lists of cores."""

from __future__ import annotations

from collections.abc import Sequence

from zombiescope.core.errors import Unparsable

MOST_CORES = 65_536  # more than any kernel can be built for


def lines(text: str) -> list[str]:
    """The lines of a kernel file. Not `splitlines`, which also splits at form feeds and others that a name may hold."""
    return text.removesuffix("\n").split("\n") if text else []


def count(text: str, base: int = 10) -> int:
    """A counter of the kernel, from 0 to what 64 bits hold; else a ValueError, for the parser to report."""
    if not text.isascii() or not text.isalnum() or len(text) > 20:
        raise ValueError(text[:40])
    number = int(text, base)
    if number >= 1 << 64:
        raise ValueError(text)
    return number


def only_count(text: str, source: str) -> int:
    """The one number that a file holds."""
    try:
        return count(text.strip())
    except ValueError:
        raise Unparsable(source, 1, text) from None


def counts(fields: Sequence[str]) -> list[int]:
    """Many numbers at once, checked as by `count`: one by one would take four times as long."""
    digits = "".join(fields)
    if fields and (not digits.isascii() or not digits.isdecimal() or max(map(len, fields)) > 20):
        raise ValueError(digits[:40])
    numbers = list(map(int, fields))
    if max(numbers, default=0) >= 1 << 64:
        raise ValueError(digits[:40])
    return numbers


def counters(text: str, source: str) -> dict[str, int]:
    """Lines of a name and a number, as /proc/vmstat, cgroup.stat and cpu.stat have them."""
    words = text.split()
    if len(words) == 2 * text.count("\n") == 2 * text.count(" "):
        try:
            return dict(zip(words[::2], counts(words[1::2]), strict=True))
        except ValueError:
            pass  # the bad line is found one by one below
    found: dict[str, int] = {}
    for number, line in enumerate(lines(text), 1):
        key, _, value = line.partition(" ")
        try:
            found[key] = count(value)
        except ValueError:
            raise Unparsable(source, number, line) from None
    return found


#                     CPU0       CPU1
def core_columns(head: str, source: str) -> list[int]:
    """The cores that the first line of /proc/interrupts and /proc/softirqs names; at least one."""
    try:
        columns = [count(name.removeprefix("CPU")) for name in head.split()]
    except ValueError:
        columns = []
    if not columns:
        raise Unparsable(source, 1, head)
    return columns


# 0-47,96-143
def cores(text: str, source: str) -> list[int]:
    """The cores that a list of ranges names, in its order; an empty list names none."""
    found: list[int] = []
    try:
        for part in text.strip().split(",") if text.strip() else ():
            first, dash, last = part.partition("-")
            start, end = count(first), count(last if dash else first)
            if end < start or end >= MOST_CORES:
                raise ValueError(part)
            found += range(start, end + 1)
            if len(found) > MOST_CORES:
                raise ValueError(part)
    except ValueError:
        raise Unparsable(source, 1, text) from None
    return found
