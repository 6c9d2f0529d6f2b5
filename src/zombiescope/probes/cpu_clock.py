"""How fast each core runs against what it is sold for, and how long heat held it back.

Overhead: up to three reads of 10 µs for each of at most `MOST` cores, the others in the next samples; on 192 cores
    1 ms every four seconds. What a core is sold for is read once. The current speed of a busy core takes an interrupt
    there on some drivers.
Kernel: cpufreq/scaling_cur_freq (Documentation/admin-guide/pm/cpufreq.rst); cpufreq/base_frequency with intel_pstate,
    acpi_cppc/nominal_freq with CPPC; thermal_throttle (drivers/thermal/intel/therm_throt.c), its times in ms of newer
    kernels. A virtual machine mostly has none of them, as its speed is its host's: then that is what is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.kernel.text import only_count
from zombiescope.probes._remembering import Look, remembering

EVERY = 4.0
CLOCK, NOMINAL, HEAT = "cpu_clock_hertz", "cpu_nominal_hertz", "cpu_heat_seconds_total"
KNOWN = "cpu_clocks_known"
GIVES = (CLOCK, NOMINAL, HEAT, KNOWN)
_OF_CORES = GIVES[:3]
MOST = 32  # cores in a sample
RENEWED = 600.0  # seconds: cores come and go seldom
_FOLDER = "/sys/devices/system/cpu"
_NOMINAL = (("cpufreq/base_frequency", 1e3), ("acpi_cppc/nominal_freq", 1e6))  # in kHz, in MHz
_CLOCK, _NONE = "cpufreq/scaling_cur_freq", "no such file or directory"
_HEAT = ("core_throttle_total_time_ms", "package_throttle_total_time_ms")


class _Cores:
    """The cores with the speed that each is sold for, and whose turn it is."""

    def __init__(self, host: Host) -> None:
        numbers = sorted(int(it[3:]) for it in host.listing(_FOLDER) if re.fullmatch(r"cpu\d{1,5}", it))
        if not numbers:
            raise Unreadable(_FOLDER, "no core is listed")
        self.nominal = {cpu: _nominal(host, cpu) for cpu in numbers}
        self.turn = 0
        known = [cpu for cpu in numbers if any(it is not None for it in _figures(host, cpu, self))]
        self.known = len(known)

    def next(self) -> list[int]:
        numbers = list(self.nominal)
        chosen = numbers[self.turn : self.turn + MOST]
        self.turn = self.turn + MOST if self.turn + MOST < len(numbers) else 0
        return chosen


def watch(host: Host) -> AbstractContextManager[Look]:
    return remembering(lambda: _Cores(host), lambda cores: _told(host, cores), RENEWED)


def read(host: Host) -> Iterator[Reading | Blind]:
    return _told(host, _Cores(host))


def _told(host: Host, cores: _Cores) -> Iterator[Reading | Blind]:
    at, seen = host.now(), set()
    yield Reading(what=KNOWN, subject="node", value=cores.known, at=at, source=f"$ ls {_FOLDER}/*/cpufreq")
    for cpu in cores.next() if cores.known else ():
        sources = (_CLOCK, cores.nominal[cpu][1], f"thermal_throttle/{_HEAT[0]}")
        for what, value, path in zip(_OF_CORES, _figures(host, cpu, cores), sources, strict=True):
            if value is not None:
                seen.add(what)
                path = f"{_FOLDER}/cpu{cpu}/{path}"
                yield Reading(what=what, subject=f"cpu:{cpu}", value=value, at=at, source=path)
    for what, path in zip(_OF_CORES, (_CLOCK, _NOMINAL[0][0], "thermal_throttle"), strict=True):
        if what not in seen:
            yield Blind(what=what, source=f"{_FOLDER}/cpu0/{path}", why=_NONE)


def _figures(host: Host, cpu: int, cores: _Cores) -> tuple[float | None, float | None, float | None]:
    """How fast it runs, how fast it is sold for, and how long heat held it back."""
    return _scaled(host, cpu, _CLOCK, 1e3), cores.nominal[cpu][0], _heat(host, cpu)


def _nominal(host: Host, cpu: int) -> tuple[float | None, str]:
    for path, unit in _NOMINAL:
        if (value := _scaled(host, cpu, path, unit)) is not None:
            return value, path
    return None, ""


def _heat(host: Host, cpu: int) -> float | None:
    """The longer of the core's own and its package's: both may hold it at once."""
    known = [it for name in _HEAT if (it := _scaled(host, cpu, f"thermal_throttle/{name}", 1e-3)) is not None]
    return max(known, default=None)


def _scaled(host: Host, cpu: int, path: str, unit: float) -> float | None:
    """A figure of a core; None where there is none: no such file, an offline core, a driver that does not know."""
    path = f"{_FOLDER}/cpu{cpu}/{path}"
    try:
        text = host.read(path)
    except Unreadable:
        return None
    return only_count(text, path) * unit if text.strip() and "<" not in text else None
