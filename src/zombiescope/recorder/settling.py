"""Start settle for finished heads: one child at a time, never waited for while recording.

It runs when nothing else wants the core (SCHED_IDLE). On a node that has no idle time that may be never, so after
`PATIENCE` it gets an ordinary turn, and a better one later: it takes no more CPU by that, and heads do not pile up.

A child takes as long to start as to settle half a head, so it settles some together. If it is killed, or fails, the
heads that it left are as they were: each is tried once more, alone, and else stays readable as it is.
Standard library only: the capture process imports this.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections import deque
from contextlib import suppress

from zombiescope.core import amount
from zombiescope.kernel.system_call import SystemCall
from zombiescope.places.own_python import environment, own_python
from zombiescope.recorder.layout import HEAD_FILE
from zombiescope.recorder.own_limits import MOST_CPU, MOST_MEMORY
from zombiescope.recorder.priority import STEPS
from zombiescope.recorder.standing import Standing

MODULE = "zombiescope.recorder.settle"
TOGETHER = 8  # heads for one child, at most
WITHIN = 600.0  # seconds after it began a head is settled, also alone: later fewer of its processes can be asked
TRIES = 2
PATIENCE = 10.0  # seconds at idle priority: a head takes 1 s of CPU, a large one of 96 cores 2 s
BETTER = STEPS[0]  # nice value of one that is still not done after four times that: nine times the usual weight
BEHIND = 300.0  # seconds: then it is said that heads wait
_SECONDS = 600.0  # for each head: a child that stands still for longer is not well
_IOPRIO_SET = SystemCall("ioprio_set(2)", {"x86_64": 251, "aarch64": 30})
_ONE_PROCESS, _IDLE_CLASS = 1, 3 << 13
_FIRST_VICTIM = b"1000"  # oom_score_adj: it can be done again
NO_MEMORY = 12  # exit code of a child: ENOMEM


class Settling:
    """The heads that wait, and the child that settles some of them.

    `late`: seconds for which a finished head is left to somebody else. An agent's examiner has loaded all that it takes
    and settles heads when it looks; if it does not, we do.
    """

    def __init__(self, folder: str, late: float = 0.0, together: int = TOGETHER, *, patience: float = PATIENCE) -> None:
        """`together`: so many heads are settled by one child."""
        self._folder, self._late, self._together = folder, late, together
        self._waiting: deque[tuple[str, float]] = deque()  # segment, and when it is due
        self._patience = patience
        self._tried: dict[str, int] = {}
        self._child: tuple[int, list[str], Standing] | None = None  # process, segments, since it was started
        self.failed: list[str] = []  # in words
        self.settled = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting) + (len(self._child[1]) if self._child is not None else 0)

    @property
    def behind(self) -> float:
        """Seconds since the oldest head that waits was due."""
        return max([time.monotonic() - due for _, due in self._waiting], default=0.0)

    def add(self, segment: str) -> None:
        """To be settled now, if it does not wait: a killed recorder left it, or there was no room on the disk."""
        if segment not in {it for it, _ in self._waiting}.union(self._child[1] if self._child is not None else ()):
            self._waiting.append((segment, time.monotonic()))

    def ended(self, segment: str, lasted: float) -> None:
        """A head that was written for so many seconds: to be settled with the next ones."""
        wait = self._late or max(WITHIN - lasted, 0.0)
        self._waiting.append((segment, time.monotonic() + wait))

    def tend(self, *, idle: bool = True) -> None:
        """Take note of a child that has ended, and start the next one."""
        if self._child is not None:
            pid, segments, standing = self._child
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                self._hasten(pid, standing, len(segments))
                return
            self._child = None
            self._note(segments, os.waitstatus_to_exitcode(status))
        if (not idle or self._is_time()) and (segments := self._next()):
            try:
                pid = self._started(segments, idle)
                self._child = (pid, segments, Standing(pid, time.monotonic()))
            except OSError as error:  # no memory, too many processes
                self._note(segments, 1, f"could not be started: {(error.strerror or '').lower()}")

    def _hasten(self, pid: int, standing: Standing, heads: int) -> None:
        now = time.monotonic()
        passed = now - standing.since
        with suppress(OSError):  # it has just ended
            if standing.still(now) > _SECONDS * heads:
                os.kill(pid, 9)
            elif passed > self._patience and os.sched_getscheduler(pid) == os.SCHED_IDLE:
                os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
            elif passed > 4 * self._patience and os.getpriority(os.PRIO_PROCESS, pid) > BETTER:
                os.setpriority(os.PRIO_PROCESS, pid, BETTER)

    def _is_time(self) -> bool:
        if len(self._waiting) >= self._together and not self._late:
            return True
        return any(due <= time.monotonic() for _, due in self._waiting)

    def _next(self) -> list[str]:
        """The oldest heads that are still there; one that was tried before alone."""
        segments: list[str] = []
        while self._waiting and len(segments) < self._together:
            segment, _ = self._waiting[0]
            if segments and (segment in self._tried or segments[0] in self._tried):
                break
            self._waiting.popleft()
            if self._is_there(segment):
                segments.append(segment)
        return segments

    def _is_there(self, segment: str) -> bool:
        return os.path.lexists(os.path.join(self._folder, segment, HEAD_FILE))

    def finish(self, seconds: float) -> None:
        """Settle what waits, for so long; then leave it."""
        end = time.monotonic() + seconds
        if self._child is not None:  # the last one was started while recording; now somebody waits for it
            with suppress(OSError):
                os.sched_setscheduler(self._child[0], os.SCHED_OTHER, os.sched_param(0))
        while self.waiting and time.monotonic() < end:
            self.tend(idle=False)
            time.sleep(0.02)
        if self._child is not None:
            pid, _, _ = self._child
            with suppress(OSError):
                os.kill(pid, 9)
                os.waitpid(pid, 0)
            self._child = None

    def _note(self, segments: list[str], code: int, how: str = "") -> None:
        """A child has ended, or could not be started."""
        for segment in segments:
            tried = self._tried.pop(segment, 0) + 1
            if code == 0 or not self._is_there(segment):
                self.settled += 1
            elif tried < TRIES:
                self._tried[segment] = tried
                self._waiting.append((segment, time.monotonic()))
            else:
                how = how or _how(code)
                self.failed.append(f"settling {segment} {how}: it stays as it was captured")

    def _started(self, segments: list[str], idle: bool) -> int:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            argv = own_python(MODULE, self._folder, *segments)
            files = [(os.POSIX_SPAWN_DUP2, nothing, number) for number in (0, 1, 2)]
            # A group of its own: Ctrl-C is meant for us.
            pid = os.posix_spawn(argv[0], argv, environment(), file_actions=files, setpgroup=0)
        finally:
            os.close(nothing)
        _make_modest(pid, idle, len(segments))
        return pid


def _how(code: int) -> str:
    """How a child ended; two limits that what it reads of others may strike have their own words."""
    if code == NO_MEMORY:
        return f"needed more than {amount(MOST_MEMORY)} of memory"
    if code == -signal.SIGXCPU:
        return f"took more than {MOST_CPU} s of CPU time"
    return f"was ended by signal {-code}" if code < 0 else f"ended with {code}"


def _make_modest(pid: int, idle: bool, heads: int) -> None:
    """It runs when nobody else wants the core or the disk, and goes first when memory is short."""
    with suppress(OSError, ValueError):
        if idle:
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        _IOPRIO_SET(_ONE_PROCESS, pid, _IDLE_CLASS)
        resource.prlimit(pid, resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
        resource.prlimit(pid, resource.RLIMIT_CPU, (MOST_CPU * heads, MOST_CPU * heads + 1))
    with suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "wb", buffering=0) as file:
        file.write(_FIRST_VICTIM)
