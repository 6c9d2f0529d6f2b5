"""/proc/sys/kernel/osrelease: the kernel's release, for what differs between kernels and no other file shows.

Overhead: one read of some 20 bytes every ten minutes.
Kernel: Documentation/admin-guide/sysctl/kernel.rst. It never changes while the node is up.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Host, Reading, Unparsable

EVERY = 600.0
GIVES = ("kernel_release",)
SOURCE = "/proc/sys/kernel/osrelease"


def read(host: Host) -> Iterator[Reading]:
    yield Reading(what=GIVES[0], subject="node", value=1, at=host.now(), source=SOURCE, text=parse(host.read(SOURCE)))


# 5.4.0-1106-aws
def parse(text: str) -> str:
    release = text.strip()
    if not release or len(release) > 64:  # __NEW_UTS_LEN
        raise Unparsable(SOURCE, 1, text)
    return release
