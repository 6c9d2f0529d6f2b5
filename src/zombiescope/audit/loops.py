"""Can a unit restart forever? The arithmetic of systemd's start limit.

systemd allows StartLimitBurst starts within StartLimitIntervalSec, counted in windows that begin with a start, and
gives up on the unit at the next one (ratelimit_below() in src/basic/ratelimit.c). The default, 5 in 10 s, is never
reached by a unit that waits 2 s or more between two starts: RestartSec=10 loops until the machine is switched off.
"""

from __future__ import annotations

from dataclasses import dataclass

INTERVAL, BURST, PAUSE = 10.0, 5, 0.1  # systemd's defaults: DefaultStartLimitIntervalSec=, …Burst=, DefaultRestartSec=
# What makes systemd restart a service, by Restart= (systemd.service(5)).
_AFTER = {
    "always": "whenever it exits",
    "on-success": "when it exits with success",
    "on-failure": "when it fails",
    "on-abnormal": "after a signal, a timeout or the watchdog",
    "on-abort": "after a signal",
    "on-watchdog": "after the watchdog",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """A unit's restart settings; times in seconds."""

    restart: str = "no"
    pause: float = PAUSE
    interval: float = INTERVAL
    burst: int = BURST
    prevented_by: tuple[
        str, ...
    ] = ()  # RestartPreventExitStatus=: exit codes and signals after which it is not restarted

    @property
    def restarts(self) -> bool:
        return self.restart in _AFTER

    @property
    def unlimited(self) -> bool:
        """Whether its start limit is switched off: by no interval, or by no number of starts."""
        return not (self.interval and self.burst)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether systemd ever gives up on a unit that fails at every start."""

    for_ever: bool
    says: str


def judge(policy: RestartPolicy, gives_up_with: int | None = None) -> Judgement:
    """What happens to a unit that fails at once, every time.

    `gives_up_with` is the exit code, if one is known, by which the program says that a restart is no use.
    """
    if not policy.restarts:
        return Judgement(for_ever=False, says="systemd never restarts it")
    after = _AFTER[policy.restart]
    if gives_up_with is not None and str(gives_up_with) in policy.prevented_by:
        return Judgement(for_ever=False, says=f"restarted {after}, but not after exit code {gives_up_with}")
    ignored = (
        ""
        if gives_up_with is None
        else f"; exit code {gives_up_with} means “do not restart me”, and the unit ignores it"
    )
    if policy.unlimited:
        return Judgement(for_ever=True, says=f"restarted {after}, forever: its start limit is switched off{ignored}")
    limit = f"its start limit, {policy.burst} in {policy.interval:g} s"
    longest = policy.interval / policy.burst - policy.pause
    if longest <= 0:
        return Judgement(
            for_ever=True,
            says=f"restarted {after}, forever: {limit}, never trips with a pause of {policy.pause:g} s{ignored}",
        )
    return Judgement(
        for_ever=False,
        says=f"restarted {after}; {limit}, trips only if each run ends within {longest:.3g} s{ignored}",
    )
