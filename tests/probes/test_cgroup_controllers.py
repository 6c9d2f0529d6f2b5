"""cgroup.controllers: what is bound to v2, and what /proc/cgroups only seems to bind to it."""

from __future__ import annotations

from pathlib import Path

from tests.files import node_of

from zombiescope.cgroups.census import count
from zombiescope.members.rooms import healthy
from zombiescope.probes.cgroup_controllers import parse
from zombiescope.recorder.sampling import look
from zombiescope.recorder.tape import Tape

FILES = {
    "proc/self/mountinfo": "24 23 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
    "proc/cgroups": "memory\t0\t466\t1\nnet_cls\t0\t466\t1\nblkio\t0\t466\t1\n",
    "sys/fs/cgroup/cgroup.stat": "nr_descendants 41\nnr_dying_descendants 424\n",  # before v6.12
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
}


def test_parse() -> None:
    assert parse("cpuset cpu io memory\n") == ["cpuset", "cpu", "io", "memory", "blkio"]
    assert parse("\n") == []


def test_only_controllers_of_v2_have_its_dead(tmp_path: Path) -> None:
    machine, tape = node_of(tmp_path, FILES), Tape()
    for name, probe in healthy("probes").items():
        look(machine, name, probe, tape)
    (census,) = count(tape.timeline())
    assert census.controllers == ("blkio", "memory") and (census.dead, census.live) == (424, 42)
