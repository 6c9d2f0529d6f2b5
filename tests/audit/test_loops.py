"""The start limit's arithmetic: which restart policies can loop for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.audit.loops import RestartPolicy, judge


def trips(policy: RestartPolicy, lives: float, starts: int = 200) -> bool:
    """systemd's ratelimit_below(), start by start: windows begin with a start, one more than the burst is refused."""
    begun, number = float("-inf"), 0
    for start in range(starts):
        now = start * (policy.pause + lives)
        if now - begun > policy.interval:
            begun, number = now, 1
        elif number < policy.burst:
            number += 1
        else:
            return True
    return False


@pytest.mark.parametrize(
    ("policy", "for_ever", "says"),
    [
        (RestartPolicy(), False, "never restarts it"),
        (RestartPolicy(restart="on-failure", pause=10), True, "5 in 10 s, never trips with a pause of 10 s"),
        (RestartPolicy(restart="always", pause=2), True, "forever"),
        (RestartPolicy(restart="always"), False, "trips only if each run ends within 1.9 s"),
        (RestartPolicy(restart="always", interval=0), True, "its start limit is switched off"),
        (RestartPolicy(restart="on-abnormal", burst=0), True, "after a signal, a timeout or the watchdog, forever"),
        (RestartPolicy(restart="always", pause=1, interval=60), False, "trips only if each run ends within 11 s"),
        (RestartPolicy(restart="always", pause=10, interval=float("inf")), False, "5 in inf s"),
    ],
)
def test_policies(policy: RestartPolicy, for_ever: bool, says: str) -> None:
    judged = judge(policy)
    assert judged.for_ever == for_ever and says in judged.says


def test_the_defaults_are_systemd_s_and_no_exit_code_is_made_up() -> None:
    assert (RestartPolicy().pause, RestartPolicy().interval, RestartPolicy().burst) == (0.1, 10.0, 5)
    assert "exit code" not in judge(RestartPolicy(restart="always", pause=10)).says
    assert "None" not in judge(RestartPolicy(restart="always", burst=0)).says


def test_the_exit_code_that_means_give_up_is_heeded_or_not() -> None:
    ecs = RestartPolicy(restart="on-failure", pause=10)
    assert (
        judge(ecs, 5).for_ever
        and "exit code 5 means “do not restart me”, and the unit ignores it" in judge(ecs, 5).says
    )
    fixed = RestartPolicy(restart="on-failure", pause=10, prevented_by=("5",))
    assert not judge(fixed, 5).for_ever and "not after exit code 5" in judge(fixed, 5).says


@given(st.integers(1, 400), st.integers(1, 300), st.integers(1, 20))
def test_agrees_with_systemds_own_counting(pause: int, interval: int, burst: int) -> None:
    """In tenths of a second; a run that ends at once. At the very edge the clock decides, so it is left out."""
    policy = RestartPolicy(restart="always", pause=pause / 10, interval=interval / 10, burst=burst)
    if pause * burst != interval:
        assert judge(policy).for_ever == (not trips(policy, lives=0.0))
