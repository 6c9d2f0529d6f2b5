"""A systemd of its own with an agent that crash-loops and leaks: what tests of `fix` act on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import Run
from tests.looping_unit import looping
from tests.waiting import until

from zombiescope.lab._systemd import Booted, asked_by_diagnosis, booted
from zombiescope.treatment.kept import State, kept

ADVICE = "the plan is advice"
LOOKS = (3, 6, 12, 24)  # seconds: a look may see too little where neighbours take cores away, and a longer one follows
WRITTEN = ("/etc/systemd", "/run/systemd/system", "/etc/init.d", *(f"/etc/rc{level}.d" for level in "0123456S"))
WANTED = "[Install]\nWantedBy=multi-user.target\n"
# Each run writes a log, which outlives its cgroup and keeps it.
# 40 ms between two runs: between them systemd shows how the last one failed, as it does on a real node.
LEAKS = looping("echo cannot register > /var/lib/agent/$$$$.log; exit 1", pause=0.04) + WANTED
LOOPS = looping("exit 1", pause=0.04) + WANTED


@contextmanager
def leaking(logs: Path, *, place: str = "usr", others: dict[str, str] | None = None, dead: int = 8) -> Iterator[Booted]:
    """A systemd with ecs.service crash-looping and leaking for a while, its unit file a package's or an admin's."""
    packaged = {"ecs.service": LEAKS} if place == "usr" else {}
    files = {} if place == "usr" else {"/etc/systemd/system/ecs.service": LEAKS}
    bound = {"/var/lib/agent": str(logs)}
    with booted({**packaged, **(others or {})}, files=files, binds=bound, label=f"fix-{_letters()}") as systemd:
        systemd.systemctl("enable", "ecs.service")
        systemd.systemctl("start", "--no-block", "ecs.service")
        with asked_by_diagnosis(systemd):
            until(lambda: len(list(logs.iterdir())) >= dead)
            yield systemd


def _letters() -> str:
    """Our pid in letters: names that differ in numbers only are one family, and neighbours boot a systemd, too."""
    return "".join("abcdefghij"[int(digit)] for digit in str(os.getpid()))


def applied(zombiescope: Run, unit: str, *, looks: tuple[int, ...] = LOOKS) -> None:
    """`fix UNIT --apply`. On a busy machine a look may not show how the unit ends or what it leaves behind; then
    nothing is done, as it should be, and a longer look shows it."""
    for seconds in looks:
        done = zombiescope("fix", unit, "--apply", "--seconds", f"{seconds}", "--hz", "0")
        if ADVICE not in done.stderr:
            break
    assert done.returncode == 0, done.stdout + done.stderr


def state(systemd: Booted, unit: str = "ecs.service") -> tuple[dict[str, State], str]:
    """All that undo must bring back: every file, folder and link where `systemctl` may change one."""
    from zombiescope.audit.systemd import system_of
    from zombiescope.core import Host

    return kept(system_of(Host()), WRITTEN), systemd.show(unit, "UnitFileState")
