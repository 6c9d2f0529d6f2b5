"""Who looks when: every probe at its own pace, every look noted with its failure and its cost.

The doctor must not infect: a probe that turns out to be dear on this node is asked less often, so that no probe takes
more than `SHARE` of one core, whatever the node's disease makes it cost.
"""

from __future__ import annotations

import contextlib
import heapq
import time
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from types import ModuleType

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.rooms import Broken, guarded, members
from zombiescope.recorder.tape import Tape

SHARE = 0.005  # of one core, for one probe: a dozen dear probes together stay below a tenth of a core
SELDOM = 60.0  # seconds: what is asked less often than this is not asked once more at the end
COSTS = "look_cpu_seconds"
Progress = Callable[[float], None]
Eye = Callable[[], Iterable[Reading | Blind]]  # one look


def record(host: Host, seconds: float, progress: Progress | None = None, only: Container[str] | None = None) -> Tape:
    """Look at a live machine for so long; all probes, or `only` some, look once at the start and once at the end.

    A recorded root stands still, so it is looked at once. Ctrl-C ends the recording early and keeps it.
    """
    tape = Tape()
    probes = {
        name: probe
        for name, probe in members("probes").items()
        # What a broken probe would have given cannot be known: who needs it finds that nobody looked.
        if isinstance(probe, ModuleType) and (only is None or name in only)
    }
    with ExitStack() as open_eyes:
        eyes = {name: _opened(host, probe, open_eyes) for name, probe in probes.items()}
        for name, probe in probes.items():
            look(host, name, probe, tape, eyes[name])
        if host.live and seconds > 0:
            with contextlib.suppress(KeyboardInterrupt):
                _keep_looking(host, probes, eyes, tape, seconds, progress)
            for name, probe in probes.items():
                if probe.EVERY <= SELDOM:
                    look(host, name, probe, tape, eyes[name])
    return tape


def look(host: Host, name: str, probe: ModuleType, tape: Tape, eye: Eye | None = None) -> float:
    """One look of one probe. Whatever goes wrong is noted as not seen; returns the CPU time it cost."""
    started = time.thread_time()
    blind: list[Blind] = []
    try:
        seen = guarded(lambda: list((eye or partial(probe.read, host))()))
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


def _opened(host: Host, probe: ModuleType, open_eyes: ExitStack) -> Eye:
    """How a probe looks: by reading anew each time, or, if it has to keep something open meanwhile, by its `watch`."""
    if not (host.live and hasattr(probe, "watch")):
        return partial(probe.read, host)
    try:
        eye = guarded(lambda: open_eyes.enter_context(probe.watch(host)))
    except (Unreadable, Unparsable) as error:
        return partial(_raise, error)
    return partial(_raise, Unreadable("watch", f"broken: {eye.why}")) if isinstance(eye, Broken) else eye


def _raise(error: Exception) -> Iterable[Reading | Blind]:
    raise error


def _keep_looking(
    host: Host,
    probes: Mapping[str, ModuleType],
    eyes: Mapping[str, Eye],
    tape: Tape,
    seconds: float,
    progress: Progress | None,
) -> None:
    start = time.monotonic()
    due = [(start + probe.EVERY, name) for name, probe in probes.items()]
    if progress is not None:
        due.append((start, ""))  # the progress line is one more thing that is due now and then
    heapq.heapify(due)
    while due[0][0] < start + seconds:
        when, name = due[0]
        time.sleep(max(0.0, when - time.monotonic()))
        if name:
            pause = max(probes[name].EVERY, look(host, name, probes[name], tape, eyes[name]) / SHARE)
        else:
            assert progress is not None
            progress(time.monotonic() - start)
            pause = 0.25
        # Keep the rhythm; after a stall (SIGSTOP, a starved core) go on from now instead of catching up.
        heapq.heapreplace(due, (max(when + pause, time.monotonic()), name))
    time.sleep(max(0.0, start + seconds - time.monotonic()))
