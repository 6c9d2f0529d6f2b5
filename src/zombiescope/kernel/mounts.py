"""Where cgroup hierarchies are mounted, and whether the whole of them can be seen from here.

`/proc/self/mountinfo` is the only source that distinguishes v1 from v2 without guessing: the file system type is
`cgroup` or `cgroup2`, the super options name the v1 controllers, and the root field shows whether it is the whole
hierarchy or a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from zombiescope.core import Host, Unparsable, Unreadable
from zombiescope.kernel.text import lines

MOUNTINFO = "/proc/self/mountinfo"
# The initial cgroup namespace's inode (PROC_CGROUP_INIT_INO in include/linux/proc_ns.h). In any other namespace,
# as in most containers, "/" of a hierarchy is only our own part of it.
_INITIAL_NAMESPACE = "cgroup:[4026531835]"
# All the controllers that v1 has; it gets no new ones. Other mount options (seclabel, xattr) are not controllers.
_CONTROLLERS = {
    *("blkio", "cpu", "cpuacct", "cpuset", "debug", "devices", "freezer", "hugetlb"),
    *("memory", "misc", "net_cls", "net_prio", "perf_event", "pids", "rdma"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupMount:
    """One mounted hierarchy."""

    version: int  # 1 or 2
    controllers: tuple[str, ...]  # v1: those bound to it; v2: none are named here
    name: str  # a v1 hierarchy without controllers has a name ("systemd"); else ""
    root: str  # what of the hierarchy is mounted: "/" is all of it
    path: str
    line: str

    @property
    def from_top(self) -> bool:
        """From the top of the reader's cgroup namespace, or from above it, which reads as "/.." or "/../.."."""
        return self.root.replace("/..", "") in ("", "/")

    @property
    def subjects(self) -> list[str]:
        """The subjects of readings of this hierarchy."""
        return [f"controller:{name}" for name in self.controllers] or [f"hierarchy:{self.name or 'v2'}"]


def cgroup_mounts(host: Host) -> list[CgroupMount]:
    """Each hierarchy once, in mount order; a mount of the whole is preferred to one of a part."""
    return list(_each_once(host.read(MOUNTINFO)))


@lru_cache(maxsize=2)  # some ten probes ask every few seconds; a node with many pods has thousands of mounts
def _each_once(text: str) -> tuple[CgroupMount, ...]:
    found: dict[tuple[object, ...], CgroupMount] = {}
    for mount in parse(text):
        key = (mount.version, mount.controllers, mount.name)
        if key not in found or (not found[key].from_top and mount.from_top):
            found[key] = mount
    return tuple(found.values())


def mount_of(host: Host, controller: str) -> CgroupMount:
    """The hierarchy of a controller: the v1 one that it is bound to, else v2; Unreadable where there is neither."""
    mounts = cgroup_mounts(host)
    bound = [it for it in mounts if controller in it.controllers] or [it for it in mounts if it.version == 2]
    if not bound:
        raise Unreadable(MOUNTINFO, f"no hierarchy with the {controller} controller is mounted")
    return bound[0]


def tree_of(host: Host, controller: str, most: int) -> tuple[CgroupMount, list[str]]:
    """The hierarchy of a controller, and the live cgroups below its mount point; Unreadable if it cannot be listed."""
    mount = mount_of(host, controller)
    host.check_folder(mount.path)
    return mount, list(host.tree(mount.path, most=most))


def whole(host: Host, mount: CgroupMount) -> bool:
    """True if the mount shows every cgroup of the node: not a part of it, and not from inside a container."""
    if not mount.from_top:
        return False
    try:
        if host.link("/proc/self/ns/cgroup") == _INITIAL_NAMESPACE:
            return mount.root == "/"
    except Unreadable:  # before 4.6 there were no cgroup namespaces; a recorded root may not have kept the link
        return mount.root == "/"
    return _is_top(host, mount)


def _is_top(host: Host, mount: CgroupMount) -> bool:
    """By the files that only the top of a hierarchy has (release_agent), or all but the top (cgroup.events)."""
    if mount.version == 1:
        return host.status(f"{mount.path}/release_agent") is not None
    procs, events = (host.status(f"{mount.path}/cgroup.{name}") for name in ("procs", "events"))
    return procs is not None and events is None


# 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
# 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
def parse(text: str) -> Iterator[CgroupMount]:
    for number, line in enumerate(lines(text), 1):
        before, separator, after = line.partition(" - ")
        kind, _, rest = after.partition(" ")
        if kind not in ("cgroup", "cgroup2") and separator:
            continue
        fields, options = before.split(" "), rest.rpartition(" ")[2].split(",")
        if not separator or len(fields) < 6:
            raise Unparsable(MOUNTINFO, number, line)
        names = [option.removeprefix("name=") for option in options if option.startswith("name=")]
        yield CgroupMount(
            version=2 if kind == "cgroup2" else 1,
            controllers=() if kind == "cgroup2" else tuple(sorted(_CONTROLLERS.intersection(options))),
            name=names[0] if names else "",
            root=unescaped(fields[3]),
            path=unescaped(fields[4]),
            line=line,
        )


def unescaped(path: str) -> str:
    """The kernel writes space, tab, newline and backslash in octal."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), path)
