"""A recorded machine of a few files for probes to read: two cores, five hierarchies of v1 and one of v2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from tests.files import node_of

from zombiescope.core import Blind, Host, Reading, Unparsable

AT = 1_794_000_000.0
NAMESPACE = "proc/self/ns/cgroup"
WHOLE = "cgroup:[4026531835]"  # the initial cgroup namespace

MOUNTINFO = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:7 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 master:2 - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
""".lstrip()

MEMINFO = """
MemTotal:       24682416 kB
MemFree:        20180872 kB
MemAvailable:   23371004 kB
Shmem:               212 kB
Slab:             398932 kB
SReclaimable:      44772 kB
SUnreclaim:       354160 kB
KernelStack:        5800 kB
Percpu:           137216 kB
HugePages_Total:       0
""".lstrip()

SOFTIRQS = f"""
{"":20}CPU0       CPU1{"":7}
          HI:          0          0
       TIMER:      11530      10710
      NET_TX:          3          1
      NET_RX:        790        939
       BLOCK:          0      14530
    IRQ_POLL:          0          0
     TASKLET:          2          0
       SCHED:      22381      16688
     HRTIMER:          0          0
         RCU:      51067      51855
""".lstrip("\n")

VMSTAT = """
nr_free_pages 5045218
nr_dirty 63
nr_writeback 0
nr_dirty_threshold 1215493
pgpgin 7344136
pgpgout 1541180581
pswpin 1476
pswpout 35045
allocstall_dma 0
allocstall_dma32 2
allocstall_normal 40
allocstall_movable 3
pgfault 2320168809
pgmajfault 507162
pgscan_kswapd 9001
pgscan_direct 17
pgscan_direct_throttle 5
pgsteal_kswapd 8000
pgsteal_direct 13
pageoutrun 29
drop_pagecache 1
drop_slab 2
numa_hint_faults 31
numa_pages_migrated 4
oom_kill 3
compact_stall 11
""".lstrip()


def softnet(*cores: int, columns: int = 13) -> str:
    """A line for each core, the kernel's first `columns` of it."""
    rows = [[0x49279 + cpu, 0x29, 0xA, 0, 0, 0, 0, 0, 0x2, 0x3, 0x5, 0x7, cpu, 0, 0] for cpu in cores]
    return "".join(" ".join(f"{value:08x}" for value in row[:columns]) + "\n" for row in rows)


def psi(some: int | None, full: int | None) -> str:
    rows = {"some": some, "full": full}
    return "".join(
        f"{row} avg10=0.18 avg60=0.34 avg300=0.10 total={us}\n" for row, us in rows.items() if us is not None
    )


def stat(later: int = 0) -> str:
    """Two cores; so many seconds later both have idled."""
    idle = 1_087_069 + 100 * later
    return (
        f"cpu  88980 38 42090 {2 * idle} 440 2 6820 0 4 2\n"
        f"cpu0 44490 19 21045 {idle} 220 1 3410 0 2 1\n"
        f"cpu1 44490 19 21045 {idle} 220 1 3410 0 2 1\n"
        "intr 8885917 17 0 0 0 0 0 0 0 1\nctxt 38014093\nbtime 1418183276\nprocesses 26442\n"
        "procs_running 2\nprocs_blocked 1\nsoftirq 5057579 250191 1481983\n"
    )


def good(later: int = 0) -> dict[str, str]:
    """Every file of a healthy node that some probe reads; a folder ends in a slash and a link is under ns/."""
    return {
        "at": f"{AT + later}\n",
        NAMESPACE: WHOLE,
        "proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
        "cpuset\t0\t1\t1\ncpu\t1\t3\t1\ncpuacct\t1\t3\t1\nmemory\t4\t27\t1\npids\t8\t1\t1\n",
        "proc/self/mountinfo": MOUNTINFO,
        "proc/stat": stat(later),
        "proc/meminfo": MEMINFO,
        "proc/sys/kernel/threads-max": "192000\n",
        "proc/sys/kernel/pid_max": "32768\n",
        "proc/loadavg": "0.15 0.07 0.02 2/78 2028\n",
        "sys/devices/system/cpu/isolated": "1\n",
        "proc/uptime": f"{350735.47 + later:.2f} 234388.90\n",
        "proc/vmstat": VMSTAT,
        "proc/softirqs": SOFTIRQS,
        "proc/net/softnet_stat": softnet(0, 1),
        "proc/pressure/cpu": psi(14036781, 0),
        "proc/pressure/io": psi(159886802, 159229614),
        "proc/pressure/memory": psi(0, 0),
        "proc/pressure/irq": psi(None, 8494),
        "sys/devices/system/cpu/possible": "0-1\n",
        "sys/fs/cgroup/cpu,cpuacct/kubepods/": "",
        "sys/fs/cgroup/cpu,cpuacct/system.slice/": "",
        "sys/fs/cgroup/memory/kubepods/pod1/": "",
        "sys/fs/cgroup/memory/system.slice/": "",
        "sys/fs/cgroup/pids/": "",
        "sys/fs/cgroup/systemd/": "",
        "sys/fs/cgroup/unified/cgroup.controllers": "cpuset hugetlb\n",
        "sys/fs/cgroup/unified/cgroup.stat": "nr_descendants 41\nnr_subsys_cpuset 42\n"
        "nr_dying_descendants 5\nnr_dying_subsys_cpuset 5\n",
    }


def machine(root: Path, files: Mapping[str, str]) -> Host:
    """A recorded root with these files."""
    links = {name: text for name, text in files.items() if "/ns/" in name}
    return node_of(root, {name: text for name, text in files.items() if name not in links}, links)


def told(probe: ModuleType, host: Host) -> dict[tuple[str, str], float]:
    """What a probe read: the value by what and whom."""
    return {(it.what, it.subject): it.value for it in probe.read(host) if isinstance(it, Reading)}


def unseen(probe: ModuleType, host: Host) -> dict[str, str]:
    """What a probe could not see though it saw the rest, and why."""
    return {it.what: it.why for it in probe.read(host) if isinstance(it, Blind)}


def damage_in(parse: Callable[..., object], *given: object) -> tuple[str, int]:
    """Which line of which source a parser complains of; it must."""
    with pytest.raises(Unparsable) as caught:
        found = parse(*given)
        if isinstance(found, Iterator):
            list(found)
    return caught.value.source, caught.value.line
