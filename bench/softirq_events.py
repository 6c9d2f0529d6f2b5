"""What the eBPF programs cost the kernel at 50,000 softirqs a second: packets over loopback.

Twice: as the kernel times the programs, and as a sender's own CPU time grows with them, which has also the way from the
tracepoint to the program. The second is what the probes' limits (SOFTIRQS, POLLS) must keep within 0.3 % of a core.
kernel.bpf_stats_enabled makes the kernel time each run of a program, which itself costs more than the program: what an
empty program at the same tracepoints seems to take is subtracted. It is put back afterwards.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

from zombiescope.core import Host, Unreadable, UserError
from zombiescope.kernel.bpf import Program
from zombiescope.kernel.ebpf import R0, Assembler
from zombiescope.probes import irq_handler_events, napi_poll, softirq_events

RATE, SECONDS = 50_000, 6.0
TURNS, PACKETS = 9, 5_000
ALLOWED = 0.003  # of one core
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")


def ratios() -> Iterator[tuple[str, float, float, str]]:
    try:
        yield from _whole()
        with ExitStack() as stack:
            stack.enter_context(_stats())
            stack.enter_context(_without_rest())
            eyes = [stack.enter_context(it.watch(Host())) for it in (softirq_events, irq_handler_events, napi_poll)]
            ours = _programs()
            empty = stack.enter_context(Program(_empty(), "bench_empty"))
            empty.attach("softirq_entry")
            sender = stack.enter_context(
                subprocess.Popen([sys.executable, "-m", "bench.softirq_events"], stdout=subprocess.PIPE)
            )
            assert sender.stdout is not None and sender.stdout.readline()  # it sends
            for look in eyes * 2:  # the second round is the first that knows the rate
                list(look())
                time.sleep(0.3)
            before = {number: _run(number) for number in (*ours, empty.descriptor)}
            began, used = time.monotonic(), time.thread_time()
            time.sleep(SECONDS / 3)
            rounds = [list(look()) for look in eyes]
            used, passed = time.thread_time() - used, time.monotonic() - began
            after = {number: _run(number) for number in before}
    except Unreadable as error:
        raise UserError(str(error)) from error
    took = {number: tuple(map(int.__sub__, after[number], before[number])) for number in before}
    nothing = took[empty.descriptor][0] / max(took[empty.descriptor][1], 1)
    softirqs = took[empty.descriptor][1] / passed
    net = {ours[it]: (took[it][0] - took[it][1] * nothing) / 1e9 / passed for it in ours}
    if softirqs < 0.8 * RATE:  # how many are timed exactly depends on the rate, so it cannot be scaled from afar
        raise UserError(f"only {softirqs:,.0f} softirqs a second: the machine is too busy")
    at_rate = RATE / softirqs
    attached = sum(net.values()) * at_rate
    timed = {
        "softirq": softirq_events.SOFTIRQS / RATE,
        "napi": napi_poll.POLLS / RATE,
    }  # of the time; the rest they rest
    share = sum(one * at_rate * timed.get(it.partition("_")[0], 1.0) for it, one in net.items())
    each = ", ".join(f"{it} {one * at_rate:.3%}" for it, one in net.items())
    measured = f"{attached:.3%} while attached, at {softirqs:,.0f} a second, less {nothing:.0f} ns a run"
    detail = f"{share:.3%} of a core, {measured}: {each}"
    yield (
        "all programs, as the kernel times them, against 0.3 % of a core at 50,000 softirqs a second",
        share / ALLOWED,
        1.0,
        detail,
    )
    reading = used / len(rounds[0] or [1])
    yield "a sample against 5 ms", used / 0.005, 1.0, f"{used * 1e3:.2f} ms, {reading * 1e6:.0f} µs a histogram"


def _whole() -> Iterator[tuple[str, float, float, str]]:
    """With programs and without, in turn: a busy machine is as busy for both."""
    most = {softirq_events: softirq_events.SOFTIRQS, napi_poll: napi_poll.POLLS}
    cost = {}
    for probe in most:
        pairs = [(_packet(None), _packet(probe)) for _ in range(TURNS)]
        cost[probe] = statistics.median(with_it - without for without, with_it in pairs)
    share = sum(max(cost[it], 0.0) * min(RATE, limit) for it, limit in most.items())
    each = ", ".join(f"{it.__name__.rpartition('.')[2]} {one * 1e9:.0f} ns" for it, one in cost.items())
    detail = f"{share:.3%} of a core: a packet costs more by {each}, and beyond their limits they rest"
    yield "softirq and poll programs in all, against 0.3 % of a core", share / ALLOWED, 1.0, detail


@contextmanager
def _without_rest() -> Iterator[None]:
    """What the programs take while they are attached."""
    limits = ((softirq_events, "SOFTIRQS"), (irq_handler_events, "INTERRUPTS"), (napi_poll, "POLLS"))
    before = [getattr(*it) for it in limits]
    for it in limits:
        setattr(*it, float("inf"))
    try:
        yield
    finally:
        for it, value in zip(limits, before, strict=True):
            setattr(*it, value)


def _packet(probe: ModuleType | None) -> float:
    """CPU seconds of a packet over loopback, its softirq included; the least of a few."""
    with ExitStack() as stack:
        if probe is not None:
            stack.enter_context(probe.watch(Host()))  # not read, so it does not rest
        _, there = _loopback(stack)
        took = []
        for _ in range(4):
            began = time.thread_time()
            for _ in range(PACKETS):
                there.send(b"x")
            took.append((time.thread_time() - began) / PACKETS)
        return min(took)


def _loopback(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    here, there = (stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2))
    here.bind(("127.0.0.1", 0))
    there.connect(here.getsockname())
    return here, there


@contextmanager
def _stats() -> Iterator[None]:
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        yield
    finally:
        STATS.write_text(before)


def _programs() -> dict[int, str]:
    """The descriptors of this process that are programs, with what each is for."""
    tracepoints = [*softirq_events.PROGRAMS, *irq_handler_events.PROGRAMS, "napi_poll"]
    numbers = [int(it) for it in os.listdir("/proc/self/fdinfo") if _is_program(it)]
    return dict(zip(sorted(numbers), tracepoints, strict=True))  # opened in this order


def _is_program(number: str) -> bool:
    try:
        return "run_time_ns:" in Path(f"/proc/self/fdinfo/{number}").read_text()
    except FileNotFoundError:  # that of the listing itself
        return False


def _run(number: int) -> tuple[int, int]:
    """Nanoseconds and runs."""
    said = dict(line.split(":\t") for line in Path(f"/proc/self/fdinfo/{number}").read_text().splitlines())
    return int(said["run_time_ns"]), int(said["run_cnt"])


def _empty() -> bytes:
    program = Assembler()
    program.set(R0, 0)
    program.exit()
    return program.assemble()


def _send() -> None:
    """Each packet over loopback raises one NET_RX."""
    with ExitStack() as stack:
        _, there = _loopback(stack)
        print("sending", flush=True)
        began, sent = time.monotonic(), 0
        while (passed := time.monotonic() - began) < SECONDS:
            for _ in range(min(int(passed * RATE) - sent, 100)):
                there.send(b"x")
                sent += 1
            time.sleep(0.0005 if sent >= int(passed * RATE) else 0.0)


if __name__ == "__main__":
    _send()
