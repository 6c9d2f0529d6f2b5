"""What this process may do, to explain why the kernel refused something."""

from __future__ import annotations

from typing import NamedTuple

CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF = 21, 38, 39  # include/uapi/linux/capability.h
_STATUS = "/proc/self/status"


class Rights(NamedTuple):
    """The capabilities in force, and whether a seccomp filter may block calls all the same."""

    capabilities: int
    filtered: bool

    def has(self, capability: int) -> bool:
        return bool(self.capabilities >> capability & 1)


def own_rights() -> Rights:
    """Those of this process; none where /proc does not show them."""
    status = dict(line.partition(":")[::2] for line in text_of(_STATUS).splitlines())
    held = int(status.get("CapEff", "0").strip() or "0", 16)
    return Rights(held, filtered=status.get("Seccomp", "0").strip() not in ("", "0"))


def text_of(path: str) -> str:
    """A file that only makes an explanation better: empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
