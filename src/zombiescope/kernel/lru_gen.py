"""/sys/kernel/debug/lru_gen: every memory cgroup by path with its pages, dying ones too, where BPF is not allowed.

Overhead: one line for each cgroup, node and generation: 20,000 dying ones are about 4 MB of text. Not for a hot path.
Kernel: Documentation/admin-guide/mm/multigen_lru.rst; needs CONFIG_LRU_GEN (v6.1) and root. Up to v6.18 a dying cgroup
    has the id 0, because it has given its id back; since v7.0 the number is the cgroup's own, and only the missing
    folder shows that it is dying.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.kernel.private_mount import USUAL, mounted

SOURCE = f"{USUAL['debugfs'][0]}/lru_gen"
_HEAD = re.compile(r"^memcg +(\d+) (.*)$", re.MULTILINE)
_GENERATION = re.compile(r"^ +\d+ +\d+ +(\d+) +(\d+) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Listed:
    """One memory cgroup: its path, and the pages on its lists."""

    id: int
    path: str
    anon_pages: int
    file_pages: int


def listed() -> list[Listed]:
    """Every memory cgroup that the kernel lists; Unreadable where it does not."""
    with mounted("debugfs") as debugfs:
        try:
            with open(f"{debugfs}/lru_gen", encoding="utf-8", errors="surrogateescape") as file:
                return parse(file.read())
        except FileNotFoundError as error:
            raise Unreadable(SOURCE, "this kernel is built without CONFIG_LRU_GEN") from error
        except OSError as error:
            raise Unreadable(SOURCE, (error.strerror or "").lower()) from error


# memcg     0 /docker/5f0c2b7a
#  node     0
#           0      74208          0           1
#           1      74208          0           0
def parse(text: str) -> list[Listed]:
    heads = list(_HEAD.finditer(text))
    if text.strip() and not heads:
        raise Unparsable(SOURCE, 1, text)
    found = []
    for head, following in pairwise([*heads, None]):
        assert head is not None
        pages = _GENERATION.findall(text, head.end(), following.start() if following else len(text))
        anon, file = (sum(int(row[kind]) for row in pages) for kind in (0, 1))
        found.append(Listed(int(head[1]), head[2], anon, file))
    return found
