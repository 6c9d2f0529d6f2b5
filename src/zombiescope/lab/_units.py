"""Units for the lab's own systemd: crash-looping and supervised ones; what they leave behind is in its tmpfs."""

from __future__ import annotations

UNITS = "/usr/lib/systemd/system"  # for a unit that is not started directly: given to `booted` as a file

# It runs a program of the shell that asks systemd for more units.
AFTER_DBUS = """
[Unit]
DefaultDependencies=no
After=dbus.service
[Service]
ExecStart=/bin/sh {program}
"""

# Each run writes a page that outlives it, as a log does; in tmpfs only the end of the lab frees it.
LEAKS = "/bin/sh -c 'echo cannot register > /dev/shm/agent.$$$$.log; exit 1'"
ENDS = "/bin/false"  # it exits at once, and leaves nothing behind

# A healthy service that restarts its container forever, as ecs-init does: systemd counts no restart.
PROGRAM = "/usr/local/lib/zslab-supervisor"
SUPERVISOR = f"""
[Unit]
DefaultDependencies=no
[Service]
MemoryAccounting=yes
Delegate=yes
ExecStart=/bin/sh {PROGRAM}
Restart=on-failure
"""
# In v2 the supervisor must leave its own cgroup before it can enable memory for children; v1 has no such rule.
_SUPERVISE = """
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


def restarted(command: str, pause: float) -> str:
    """A unit that systemd starts again whenever its command ends, forever, `pause` seconds later."""
    return f"""
[Unit]
DefaultDependencies=no
StartLimitIntervalSec=0
[Service]
MemoryAccounting=yes
ExecStart={command}
Restart=always
RestartSec={pause}
"""


def supervise(pause: float) -> dict[str, str]:
    """The supervisor's program as a file, with `pause` seconds between two containers."""
    return {PROGRAM: _SUPERVISE.replace("PAUSE", f"{pause:.4f}")}
