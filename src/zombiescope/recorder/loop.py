"""Who looks when: every probe at its own pace, every look noted with its failure and its cost.

The doctor must not infect: a probe that turns out to be dear on this node is asked less often, so that no probe takes
more than `SHARE` of one core, whatever the node's disease makes it cost.
"""

from __future__ import annotations

import contextlib
import heapq
import time
from collections.abc import Callable, Container, Mapping
from types import ModuleType

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.rooms import Broken, guarded, members
from zombiescope.recorder.tape import Tape

SHARE = 0.005  # of one core, for one probe: a dozen dear probes together stay below a tenth of a core
COSTS = "look_cpu_seconds"
Progress = Callable[[float], None]


def record(host: Host, seconds: float, progress: Progress | None = None, only: Container[str] | None = None) -> Tape:
    """Look at a live machine for so long; all probes, or `only` some, look once at the start and once at the end.

    A recorded root stands still, so it is looked at once. Ctrl-C ends the recording early and keeps it.
    """
    tape = Tape()
    probes = {name: probe for name, probe in members("probes").items() if only is None or name in only}
    look_at_all(host, probes, tape)
    if host.live and seconds > 0:
        start = time.monotonic()
        with contextlib.suppress(KeyboardInterrupt):
            _keep_looking(host, probes, tape, start, seconds, progress)
        look_at_all(host, probes, tape)
    return tape


def look_at_all(host: Host, probes: Mapping[str, ModuleType | Broken], tape: Tape) -> None:
    for name, probe in probes.items():
        look(host, name, probe, tape)


def look(host: Host, name: str, probe: ModuleType | Broken, tape: Tape) -> float:
    """One look of one probe. Whatever goes wrong is noted as not seen; returns the CPU time it cost."""
    if isinstance(probe, Broken):
        return 0.0  # we cannot know what it would have given; who needs it finds that nobody looked
    started = time.thread_time()
    blind: list[Blind] = []
    try:
        seen = guarded(lambda: list(probe.read(host)))
        if isinstance(seen, Broken):
            raise Unreadable(f"probe {name}", f"broken: {seen.why}")
        for item in seen:
            if isinstance(item, Reading):
                tape.add(item)
            else:
                blind.append(item)
    except (Unreadable, Unparsable) as error:
        blind = [Blind(what=what, source=error.source, why=error.why) for what in probe.GIVES]
    at = host.now()  # after the read, so that what was read holds at the time of the look
    tape.look(probe.GIVES, at, blind)
    cost = time.thread_time() - started
    tape.add(Reading(what=COSTS, subject=f"probe:{name}", value=cost, at=at, source="clock_gettime(2)"))
    return cost


def _keep_looking(
    host: Host,
    probes: Mapping[str, ModuleType | Broken],
    tape: Tape,
    start: float,
    seconds: float,
    progress: Progress | None,
) -> None:
    due = [(start + probe.EVERY, name) for name, probe in probes.items() if isinstance(probe, ModuleType)]
    if progress is not None:
        due.append((start, ""))  # the progress line is one more thing that is due now and then
    heapq.heapify(due)
    while due[0][0] < start + seconds:
        when, name = due[0]
        time.sleep(max(0.0, when - time.monotonic()))
        if not name:
            assert progress is not None
            progress(time.monotonic() - start)
            heapq.heapreplace(due, (when + 0.25, ""))
            continue
        probe = probes[name]
        assert isinstance(probe, ModuleType)
        pause = max(probe.EVERY, look(host, name, probe, tape) / SHARE)
        # Keep the rhythm; after a stall (SIGSTOP, a starved core) go on from now instead of catching up.
        heapq.heapreplace(due, (max(when + pause, time.monotonic()), name))
    time.sleep(max(0.0, start + seconds - time.monotonic()))
