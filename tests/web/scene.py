"""The incident as the page gets it: the readings and the case of tests/outputs/incident, and stacks that go with them.

Twelve minutes of eight cores at 49 Hz. On core 5 kubelet walks dead cgroups in each stall; elsewhere a node is at work.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from tests.nodes import T0
from tests.outputs.incident import incident
from tests.outputs.incident_readings import CURVES, SECONDS, STALLS, reading, stalled
from tests.profile.captures import of_busy_cores

from zombiescope.core import Case
from zombiescope.core.samples import Frames, Function, Samples, Who
from zombiescope.core.timeline import Timeline
from zombiescope.probes.proc_stat import MODES
from zombiescope.recorder.tape import Tape

HZ = 49
CORES = 8
DROWNED = 5
SECOND = 1_000_000_000
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\udcff"
LOGGED = (
    "ena 0000:00:05.0 eth0: TX q 5 is paused for too long (threshold 5000000). Time since last napi 5120000 usec. "
    "napi scheduled: 1"
)
WALK = "entry_SYSCALL_64 do_syscall_64 ksys_read vfs_read seq_read memcg_numa_stat_show mem_cgroup_nr_lru_pages"

Part = tuple[Who, tuple[Function, ...], float]  # who, in which stack, and how likely


def stack(program: str, kernel: str = "", module: str = "") -> tuple[Function, ...]:
    return (
        *(Function(name, False, module) for name in program.split()),
        *(Function(name, True) for name in kernel.split()),
    )


TRAINER, KUBELET = (
    Who(4242, "ray::train", "/kubepods/pod1/trainer"),
    Who(812, "kubelet", "/system.slice/kubelet.service"),
)
WORK: list[Part] = [
    (TRAINER, stack("_start main train_step matmul sgemm_kernel", module="libtorch.so"), 0.20),
    (
        TRAINER,
        stack("_start main train_step all_reduce send", "entry_SYSCALL_64 do_syscall_64 sock_sendmsg tcp_sendmsg"),
        0.05,
    ),
    (TRAINER, stack("_start main load_batch decode inflate", module="libz.so"), 0.08),
    (
        Who(4243, "ray::load", "/kubepods/pod1/loader"),
        stack("_start main read", "entry_SYSCALL_64 ksys_read vfs_read filemap_read copy_page_to_iter"),
        0.04,
    ),
    (
        KUBELET,
        stack(
            "runtime.goexit main.housekeeping cadvisor.GetStats read",
            "entry_SYSCALL_64 do_syscall_64 ksys_read vfs_read seq_read",
        ),
        0.004,
    ),
    (KUBELET, stack("runtime.goexit runtime.gcBgMarkWorker runtime.scanobject"), 0.004),
    (
        Who(0, "swapper/5"),
        stack("", "do_idle cpuidle_enter asm_common_interrupt handle_softirqs net_rx_action ena_io_poll"),
        0.02,
    ),
    (Who(977, HOSTILE, "/evil/" + HOSTILE), stack(HOSTILE + " spin"), 0.006),
]
STALL: Part = (KUBELET, stack("runtime.goexit main.housekeeping cadvisor.GetStats read", WALK), 1.0)


@cache
def capture(seconds: int = SECONDS, seed: int = 7) -> Samples:
    """`WORK` at random, always the same; in a stall `STALL` has the core for itself."""
    dice = np.random.default_rng(seed)
    period = SECOND // HZ
    at = (np.arange(seconds * HZ)[:, None] * period + dice.integers(0, period // 2, (seconds * HZ, CORES))).ravel()
    cpu = np.tile(np.arange(CORES), seconds * HZ)
    odds = np.cumsum([it[2] for it in WORK])
    # Work comes in waves of a minute, with a burst of 0.3 s every 7 s: the higher the wave, the likelier each part.
    wave = 0.25 + 0.6 * np.sin(at / SECOND / 19) ** 2 + 1.2 * (at % (7 * SECOND) < 0.3 * SECOND)
    part = np.searchsorted(odds, dice.random(len(at)) / wave)
    idle = part == len(WORK)
    drowned = (cpu == DROWNED) & np.array([stalled(it) for it in range(seconds)])[at // SECOND]
    part[drowned] = len(WORK)
    kept = np.flatnonzero(drowned | ~idle)
    kept = kept[np.argsort(at[kept], kind="stable")]
    return made([*WORK, STALL], at[kept] + round(T0) * SECOND, cpu[kept], part[kept])


def made(parts: list[Part], at: np.ndarray, cpu: np.ndarray, part: np.ndarray) -> Samples:
    whos = sorted({it[0] for it in parts})
    functions = sorted({function for it in parts for function in it[1]})
    lengths = [len(it[1]) for it in parts]
    frames = Frames(
        functions=functions,
        of=np.array([functions.index(function) for it in parts for function in it[1]], np.int32),
        starts=np.cumsum([0, *lengths]),
    )
    who_of = np.array([whos.index(it[0]) for it in parts], np.int32)
    return replace(of_busy_cores(at, cpu, who_of[part], part, whos=whos, frames=frames, hz=float(HZ)), label="gpu-17")


@cache
def timeline() -> Timeline:
    """The incident's own readings, and what every core did in each second."""
    tape = Tape()
    shares = dict.fromkeys(MODES, 0.0)
    for second in range(SECONDS + 1):
        for (what, subject), curve in CURVES.items():
            if not what.startswith("cpu_"):
                tape.add(reading(what, subject, curve(second), second))
        waited = sum(0.9 if stalled(it) else 0.002 for it in range(second))
        tape.add(reading("thread_run_delay_seconds_total", "thread:ksoftirqd/5", waited, second))
        tape.add(reading("pressure_cpu_waiting_seconds_total", "node", waited * 0.4 + 0.03 * second, second))
        for cpu in range(CORES):
            for mode in MODES:
                tape.add(reading(f"cpu_{mode}_seconds_total", f"cpu:{cpu}", _spent(cpu, mode, second), second))
    whats = {what for what, _ in CURVES} | {f"cpu_{mode}_seconds_total" for mode in shares}
    for what in (*whats, "thread_run_delay_seconds_total", "pressure_cpu_waiting_seconds_total"):
        for second in range(SECONDS + 1):
            tape.look("probe", (what,), T0 + second)
    for begin in STALLS:
        tape.add(reading("kernel_log", "node", 3, begin + 5, LOGGED))
    return tape.timeline()


@cache
def _spent(cpu: int, mode: str, second: int) -> float:
    if second == 0:
        return 1000.0
    drowned = cpu == DROWNED and stalled(second - 1)
    busy = 0.32 + 0.2 * np.sin((second + 11 * cpu) / 23)
    calm = {"user": 0.8 * busy, "system": 0.15 * busy, "softirq": 0.05 * busy, "idle": 1 - busy}
    share = ({"system": 0.98, "idle": 0.02} if drowned else calm).get(mode, 0.0)
    return _spent(cpu, mode, second - 1) + share


def case() -> Case:
    return incident()
