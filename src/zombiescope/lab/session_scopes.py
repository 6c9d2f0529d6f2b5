"""Sessions open and close as systemd scopes, as when a monitor logs in for each check; each leaves a dying cgroup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._leaking import churn_of, leaking
from zombiescope.lab._scenario import Fault
from zombiescope.lab._systemd import TO_BOOT
from zombiescope.lab._units import AFTER_DBUS

TRUTH = churn_of(r"family:/zslab-.*/user\.slice/user-<n>\.slice/session-<n>\.scope")
NEEDS = TO_BOOT
SECONDS = 12.0
PAUSE = 0.1  # seconds between two sessions
PROGRAM = "/usr/local/lib/zslab-logins"
UNIT = AFTER_DBUS.format(program=PROGRAM) + "Restart=on-failure\n"
# The first session stays open, like a terminal, and keeps the user's slice; the others write a line and exit.
LOGINS = """
session() {
  systemd-run --quiet --scope --slice=user-1000.slice --unit="session-$1.scope" --property=MemoryAccounting=yes \\
    sh -c "$2"
}
session 1 'exec sleep 600' &
number=1
while :; do
  number=$((number + 1))
  session $number "echo checked > /dev/shm/session-$number.log"
  sleep PAUSE
done
"""


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    program = LOGINS.replace("PAUSE", f"{PAUSE / max(scale, 0.01):.4f}")
    with leaking({"zslab-logins.service": UNIT}, files={PROGRAM: program}, label="sessions") as systemd:
        yield Fault(
            subject=f"family:/{systemd.name}/user.slice/user-<n>.slice/session-<n>.scope",
            says="a user logs in, writes a line and logs out again, forever",
        )
