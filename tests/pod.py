"""A container like a DaemonSet's, made with unshare and pivot_root: hostPID, and the node's root read-only at /host.

It has a root, a network, a host name and a cgroup namespace of its own, a decoy unit where the node has its units, and
no kernel log. When its command ends nothing of it is left but an empty folder, and that is removed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from zombiescope.core import Host
from zombiescope.kernel.mounts import CgroupMount, cgroup_mounts

DECOY, POD = "zstest-decoy.service", "zstest-pod"
_SOURCE = Path(__file__).parents[1] / "src"
_PROGRAMS = ("/usr", sys.prefix, sys.base_prefix, str(_SOURCE))
_HIERARCHIES = ("memory", "pids", "systemd", "")  # by controller or name; "" is version 2
# $1 is a new root; the rest is the command. The pivot leaves the old root nowhere, as in a real container.
_ENTER = """
set -e
new=$1; shift
mount -t tmpfs tmpfs $new
for folder in {programs}; do mkdir -p $new$folder; mount --rbind $folder $new$folder; done
mount -t tmpfs tmpfs $new/usr/lib/systemd
for link in bin sbin lib lib64; do ln -s usr/$link $new/$link; done
for folder in dev proc sys tmp host run old etc/systemd/system/multi-user.target.wants; do mkdir -p $new/$folder; done
printf '[Service]\\nExecStart=/bin/false\\nRestart=always\\n[Install]\\nWantedBy=multi-user.target\\n' \
    > $new/etc/systemd/system/{decoy}
ln -s ../{decoy} $new/etc/systemd/system/multi-user.target.wants/{decoy}
echo {pod} > $new/etc/hostname; hostname {pod}
for device in null zero urandom; do touch $new/dev/$device; mount --bind /dev/$device $new/dev/$device; done
mount -t proc proc $new/proc
mount -t sysfs -o ro sysfs $new/sys
mount -t tmpfs tmpfs $new/sys/fs/cgroup
mkdir $new/sys/fs/cgroup/memory $new/sys/fs/cgroup/unified
mount -t cgroup -o memory cgroup $new/sys/fs/cgroup/memory
mount -t cgroup2 cgroup2 $new/sys/fs/cgroup/unified
mount {bind} / $new/host
mount -o remount,bind,ro $new/host
{also}
cd $new
pivot_root . old
umount -l /old
exec env -i PATH=/usr/sbin:/usr/bin PYTHONPATH={source} setpriv {rights} -- "$@"
"""


@contextmanager
def pod_cgroups() -> Iterator[None]:
    """The pod's cgroup in some hierarchies, two deep: /zstest-pod/inner. It is there before and after the pod runs."""
    tops = [f"{mount.path}/{POD}" for mount in _hierarchies()]
    for top in tops:
        os.makedirs(f"{top}/inner", exist_ok=True)
    try:
        yield
    finally:
        for folder in (f"{top}{below}" for top in tops for below in ("/inner", "")):
            for _ in range(100):
                with suppress(OSError):
                    os.rmdir(folder)
                    break
                time.sleep(0.05)


def _hierarchies() -> list[CgroupMount]:
    mounts = cgroup_mounts(Host())
    return [it for it in mounts if (it.controllers[0] if it.controllers else it.name) in _HIERARCHIES]


def in_pod(
    *arguments: str, also: str = "", submounts: bool = True, host_pid: bool = True, without: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments there, within `pod_cgroups`.

    `also`: shell commands before the pivot, with the new root in $new; `without`: capabilities that it has not.
    """
    taken = ",".join(f"-{name}" for name in without)
    script = _ENTER.format(
        programs=" ".join(dict.fromkeys(_PROGRAMS)),
        decoy=DECOY,
        pod=POD,
        bind="--rbind" if submounts else "--bind",
        also=also,
        source=_SOURCE,
        rights=f"--bounding-set={taken} --inh-caps={taken}" if taken else "--no-new-privs",
    )
    namespaces = ["--mount", "--cgroup", "--uts", "--net", *([] if host_pid else ["--pid", "--fork"])]
    join = "".join(f"echo $$ > {it.path}/{POD}/inner/cgroup.procs; " for it in _hierarchies())
    with tempfile.TemporaryDirectory(prefix="zstest-") as new:
        argv = [
            *("sh", "-c", f'{join} exec "$@"', "sh", "unshare", *namespaces),
            *("sh", "-c", script, "sh", new, sys.executable, *arguments),
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done
