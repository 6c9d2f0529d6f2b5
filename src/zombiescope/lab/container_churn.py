"""A healthy service starts its container anew for ever, as ecs-init does: systemd counts no restart, and all leak."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import asked_by_diagnosis, booted
from zombiescope.lab._zombies import leaked

TRUTH = Truth(
    root="cgroup_churn",
    subject=r"family:/zslab-.*/zslab-supervisor\.service/<id>",
    chain=("cgroup_churn", "zombie_cgroups"),
    silent=("crash_looping_unit", "cpu_throttling", "direct_reclaim", "driver_reset"),
)
NEEDS = ("root", "systemd", "unshare")
SECONDS = 10.0
ALREADY = 1_000  # dead when it begins
PROGRAM = "/usr/local/lib/zslab-supervisor"
UNIT = f"""
[Unit]
DefaultDependencies=no
[Service]
MemoryAccounting=yes
Delegate=yes
ExecStart=/bin/sh {PROGRAM}
Restart=on-failure
"""
# v1 has the memory hierarchy to itself; in v2 the supervisor must leave its cgroup before it may give memory to others.
SUPERVISOR = """
own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
top=/sys/fs/cgroup/memory
if [ -z "$own" ]; then
  own=$(sed -n 's/^0:://p' /proc/self/cgroup)
  top=/sys/fs/cgroup
  mkdir "$top$own/main" && echo 0 > "$top$own/main/cgroup.procs"
  echo +memory > "$top$own/cgroup.subtree_control"
fi
while :; do
  id=$(cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/uuid | tr -d '\\n-')
  mkdir "$top$own/$id"
  sh -c 'echo 0 > "$1/cgroup.procs"; echo failed > "/dev/shm/$2.log"' container "$top$own/$id" "$id"
  rmdir "$top$own/$id"
  sleep PAUSE
done
"""


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    program = SUPERVISOR.replace("PAUSE", f"{0.05 / max(scale, 0.01):.4f}")
    with (
        leaked(ALREADY, label="already"),
        booted({"zslab-supervisor.service": UNIT}, files={PROGRAM: program}, label="churn") as systemd,
        asked_by_diagnosis(systemd),
    ):
        yield Fault(
            subject=f"family:/{systemd.name}/system.slice/zslab-supervisor.service/<id>",
            says="zslab-supervisor.service stays active and starts a container that ends at once, for ever",
        )
