"""Time from counted cycles: simulated cores whose true times are known. No machine here has such a counter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from zombiescope.kernel.perf_weights import Weights

HZ = 99
GIGAHERTZ = 3.0  # cycles a nanosecond
EVEN = 1e9 / HZ
Ints = npt.NDArray[np.int64]


def busy(start: float, seconds: float, every: float) -> tuple[Ints, Ints]:
    """Times and periods of a core that runs without a break and gives a sample each so many nanoseconds."""
    times = start * 1e9 + np.arange(1, int(seconds * 1e9 / every) + 1) * every
    return times.astype(np.int64), np.full(len(times), every * GIGAHERTZ).astype(np.int64)


def weighed(weights: Weights, *parts: tuple[Ints, Ints], cpu: int = 0, share: float = 1.0) -> Ints:
    times, periods = (np.concatenate(column) for column in zip(*parts, strict=True))
    return weights.of(times, np.full(len(times), cpu, np.uint16), periods, {cpu: share})


def test_a_busy_core_gives_even_samples() -> None:
    found = weighed(Weights("cycles", HZ), busy(0, 2, EVEN))
    assert found.sum() / 1e9 == pytest.approx(2, rel=0.02) and np.ptp(found[1:]) <= 2


def test_many_short_samples_after_idling_are_no_more_time() -> None:
    """As the kernel does it: after an idle second it samples ten times as often, until it has learnt better."""
    bursts = [busy(start + 0.5, 0.1, EVEN / 10) for start in range(1, 10)]
    weights = Weights("cycles", HZ)
    found = weighed(weights, busy(0, 1, EVEN), *bursts)
    assert found.sum() / 1e9 == pytest.approx(1.9, rel=0.03)
    assert len(found) * EVEN / 1e9 > 9, "counted alike it would be five times as much"
    later = weighed(weights, busy(20.5, 0.1, EVEN / 10))  # a read without any long stretch: the speed is remembered
    assert later.sum() / 1e9 == pytest.approx(0.1, rel=0.15)


def test_a_core_that_runs_half_of_the_time_has_half_of_it() -> None:
    """It idles between any two samples: each period is of half the time that passed. Its speed is known from before."""
    weights = Weights("cycles", HZ)
    weighed(weights, busy(0, 1, EVEN))
    times, periods = busy(1, 1, EVEN)
    assert weighed(weights, (times, periods // 2)).sum() / 1e9 == pytest.approx(0.5, rel=0.15)


def test_a_core_is_measured_by_others_until_it_was_busy_itself() -> None:
    weights = Weights("cycles", HZ)
    assert weighed(weights, (np.array([5]), np.array([30_000_000])), cpu=7).tolist() == [round(EVEN)]
    weighed(weights, busy(0, 1, EVEN), cpu=1)
    assert weighed(weights, (np.array([10**9]), np.array([3_000_000])), cpu=2).tolist() == [
        pytest.approx(10**6, rel=0.01)
    ]


def test_a_shared_counter_stands_for_all_of_the_time() -> None:
    """It counts one second of two, in turns of 100 ms with somebody else's event."""
    turns = [busy(0.2 * turn, 0.1, EVEN) for turn in range(10)]
    whole = weighed(Weights("cycles", HZ), *turns, share=0.5).sum() / 1e9
    assert whole == pytest.approx(2 * 0.09 * 10, rel=0.1)  # nine whole periods in each turn
    assert weighed(Weights("cycles", HZ), *turns, share=0.0).sum() < 10**12, "never without end"


def test_a_clock_says_it_itself() -> None:
    found = Weights("cpu-clock", HZ).of(np.arange(3), np.zeros(3, np.uint16), np.array([10_101_010, 5, 0]), {})
    assert found.tolist() == [10_101_010, 5, round(EVEN)]
