"""The folders that an overlay is made of, as its mount options say. Nothing is asked that may hang.

    rw,lowerdir=/var/lib/docker/overlay2/l/UQ3R:/var/lib/docker/overlay2/l/7JXD,upperdir=/…/diff,workdir=/…/work
    rw,lowerdir+=/a,lowerdir+=/b,datadir+=/c,upperdir=/d,workdir=/e
    rw,lowerdir=57/fs:56/fs:…,upperdir=/var/lib/containerd/…/snapshots/58/fs,workdir=/var/lib/containerd/…/58/work

The third is what containerd writes if there are many layers: from the folder in which it keeps all of them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator

_OPTION = re.compile(r"(?:^|,)(lowerdir|upperdir|datadir)\+?=([^,]*)")
_COLON = re.compile(r"(?<!\\)::?")  # two before a layer of data alone
_MOST = 500  # the kernel's own limit
_MOST_LINKS = 40  # as the kernel's


class Layers:
    """`root`: where the root of those who mounted it is; `distant`: whether a path there may not answer."""

    def __init__(self, root: str, distant: Callable[[str], bool]) -> None:
        self._root, self._distant = root.rstrip("/"), distant

    def of(self, options: str) -> Iterator[str | None]:
        """Each layer without links, or as far as it can be asked; None for one that cannot be found."""
        said = [(kind, _plain(layer)) for kind, text in _OPTION.findall(options) for layer in _COLON.split(text)]
        upper = next((layer for kind, layer in said if kind == "upperdir"), "")
        store = os.path.dirname(os.path.dirname(upper))
        if not said or len(said) > _MOST:
            yield None
        for _, layer in said[:_MOST]:
            yield self._real(layer if layer.startswith("/") else f"{store}/{layer}" if len(store) > 1 else "")

    def _real(self, path: str) -> str | None:
        done, left, links = "", path.split("/")[::-1], 0
        while left:
            part = left.pop()
            if part == "..":
                done = done.rpartition("/")[0]
            elif part not in ("", "."):
                here = f"{done}/{part}"
                if self._distant(here):
                    return here
                try:
                    target = _link(f"{self._root}{here}")
                except OSError:
                    return None
                if not target:
                    done = here
                    continue
                links += 1
                if links > _MOST_LINKS:
                    return None
                done = "" if target.startswith("/") else done
                left += target.split("/")[::-1]
        return (done or "/") if path else None


def _plain(text: str) -> str:
    """What the kernel wrote in octal, and a colon behind a backslash."""
    return unescaped(text).replace("\\:", ":")


def unescaped(text: str) -> str:
    """As the kernel writes blanks, newlines and the like in lists of mounts."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def _link(path: str) -> str:
    """Where it leads; empty if it is no link."""
    return os.readlink(path) if stat.S_ISLNK(os.lstat(path).st_mode) else ""
