"""napi:napi_poll: how much of its budget each network device's polls use.

A poll that uses all of its budget leaves packets in the ring: the device is polled again, and after a few rounds (time
or packets, net.core.netdev_budget) its softirq gives way to ksoftirqd. In each sample, and for each device: the share
of such polls, and a histogram by eighths of the budget (in the text). A core's own backlog is the device (no_device).

Overhead: 250 to 550 ns a poll on a virtual machine, most of it for the tracepoint's record, which the kernel writes
    for the eBPF program. Beyond POLLS a second they are counted in a part of the time only: of 50,000, in 2 s of each
    200 s. A sample takes 0.3 ms on 2 cores. `--no-bpf` leaves it out.
Kernel: include/trace/events/napi.h; work and budget since "net: tracepoint napi:napi_poll add work and budget" (in
    v4.8). Needs CAP_BPF and CAP_PERFMON, or root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.kernel import tracepoint_format
from zombiescope.kernel.napi_polls import NapiPolls, Polls
from zombiescope.probes._core_times import RESTS, allowed, possible_cores

EVERY = 2.0
GIVES = ("napi_full_polls_ratio",)
EVENTS = GIVES  # each sample is a histogram of its own
MOST = 16  # devices, those that used all of their budget most often; the others together
POLLS = 500.0  # a second that are counted, on the average: 0.03 % of a core, on all cores together
SOURCE = "/sys/kernel/tracing/events/napi/napi_poll"


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Keeps the program attached."""
    allowed(host, SOURCE)
    (record,) = tracepoint_format.load(host, "napi/napi_poll")
    with NapiPolls(record, len(possible_cores(host)), most=POLLS) as polls:

        def look() -> Iterator[Reading | Blind]:
            counted = polls.read()
            if counted is None:
                yield Blind(what=GIVES[0], source=SOURCE, why=RESTS, subject="node")
                return
            seconds, every, found = counted
            for it in bounded(found):
                full, many = it.counts[-1], sum(it.counts)
                bins = " ".join(f"{place}:{count}" for place, count in enumerate(it.counts) if count)
                in_all = f"{seconds:.2f} s; {many} polls, {it.packets} packets; one in {every}"
                yield Reading(
                    what=GIVES[0],
                    subject=f"nic:{it.device}",
                    value=round(full / many, 4),
                    at=host.now(),
                    source=SOURCE,
                    text=f"{in_all}; eighths of the budget: {bins}",
                )

        yield look


def read(host: Host) -> Iterator[Reading]:
    allowed(host, SOURCE)
    raise Unreadable(SOURCE, "polls are counted by watching, not by one sample")
    yield  # a generator, like every probe


def bounded(found: list[Polls]) -> list[Polls]:
    """The first MOST, and the others as one."""
    named = sorted((it for it in found if it.device), key=lambda it: (-it.counts[-1], -sum(it.counts), it.device))
    rest = [*named[MOST:], *(it for it in found if not it.device)]
    if not rest:
        return named
    counts = tuple(map(sum, zip(*(it.counts for it in rest), strict=True)))
    return [*named[:MOST], Polls("others", counts, sum(it.packets for it in rest))]
