"""What the eBPF programs cost the kernel at 50,000 softirqs a second: packets over loopback, timed by the kernel.

kernel.bpf_stats_enabled makes the kernel time each run of a program, which itself costs more than the program: what an
empty program at the same tracepoints seems to take is subtracted. It is put back afterwards.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from zombiescope.core import Host, Unreadable, UserError
from zombiescope.kernel.bpf import Program
from zombiescope.kernel.ebpf import R0, Assembler
from zombiescope.probes import irq_handler_events, napi_poll, softirq_events

RATE, SECONDS = 50_000, 6.0
ALLOWED = 0.003  # of one core
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")


def ratios() -> Iterator[tuple[str, float, float, str]]:
    try:
        with ExitStack() as stack:
            stack.enter_context(_stats())
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
    share = sum(net.values()) * at_rate
    each = ", ".join(f"{it} {one * at_rate:.3%}" for it, one in net.items())
    detail = f"{share:.3%} of a core, measured at {softirqs:,.0f} a second: {each}; less {nothing:.0f} ns a run"
    yield "all programs against 0.3 % of a core at 50,000 softirqs a second", share / ALLOWED, 1.0, detail
    reading = used / len(rounds[0] or [1])
    yield "a sample against 5 ms", used / 0.005, 1.0, f"{used * 1e3:.2f} ms, {reading * 1e6:.0f} µs a histogram"


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
    os.nice(-20)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there,
    ):
        here.bind(("127.0.0.1", 0))
        there.connect(here.getsockname())
        print("sending", flush=True)
        began, sent = time.monotonic(), 0
        while (passed := time.monotonic() - began) < SECONDS:
            for _ in range(min(int(passed * RATE) - sent, 100)):
                there.send(b"x")
                sent += 1
            time.sleep(0.0005 if sent >= int(passed * RATE) else 0.0)


if __name__ == "__main__":
    _send()
