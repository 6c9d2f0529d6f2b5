"""PID 1 is busy all the time, so units are not started, and nothing that asks it gets an answer.

Why it hurts: systemd reads the whole table of mounts at every change and visits every unit at every reload. While it
    does, no container starts, no orphan is reaped and leases run out. It is one thread, so half a core of it is
    nearly all it has.
False alarms: boot, and one daemon-reload, take seconds. In a container PID 1 is the program itself: only an init
    counts.
References: src/core/mount.c and src/core/cgroup.c of systemd; systemd issues 8703 and 31137.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Finding, Reading, Span, harmless, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.waits import waited_anywhere
from zombiescope.knowledge.functions import shows

_CONTAINER, _ANSWER = "process_is_init", "systemd_answer_seconds"
_USER, _SYSTEM = "process_user_seconds_total", "process_system_seconds_total"
_DELAY = "process_run_delay_seconds_total"
# Scale: a share of one core: PID 1 has one thread on any node.
NEEDS = (_SYSTEM,)
MUCH = 0.5  # of a core that it used or waited for: PID 1 of a healthy node stays below 0.02
LEAST = 0.2  # of a core that it used: one that only waits has little to do
LASTS = 4.0  # seconds: a reload of a node with a thousand units takes two
LATE = 0.1  # seconds for an answer: a PID 1 that is not busy lists a thousand units in 5 ms
UNANSWERED = "no answer in "  # as a probe says it that has waited for long enough
SAID = 0.1  # of the time that it waited for a core: less is not worth a word
PART = 0.1  # of its samples: what they show less of is not said to keep it busy, whatever the node
_WORK = {"mount_table": "in the kernel, printing the table of mounts for it", "cgroup_file": "reading cgroups' files"}
BOOT = 300.0  # seconds since boot: until then it is starting the node
_INIT = re.compile(r"process:(systemd|init|dbus-daemon|dbus-broker)\[(\d+)\]")


def find(timeline: Timeline) -> Iterator[Finding]:
    up = timeline.series("uptime_seconds")
    for subject in timeline.subjects(_SYSTEM, "process"):
        found = _INIT.fullmatch(subject)
        container = bool(len(timeline.series(_CONTAINER, subject)))
        if found is None or (found[1] in ("systemd", "init") and found[2] != "1" and not container):
            continue
        if len(up) and up.latest.value < BOOT:
            continue  # for a container's own boot see LASTS: it takes a second or two
        used = _used(timeline, subject)
        for busy in _wanted(timeline, used).runs(above=MUCH, lasting=LASTS):
            yield _finding(timeline, subject, used.between(busy.span))


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    own = [_used(timeline, it) for it in timeline.subjects(_SYSTEM, "process") if _INIT.fullmatch(it)]
    rates = [it for it in own if len(it)]
    if not rates:
        return "PID 1 was not among the busiest processes", (timeline.looks(_SYSTEM).latest,)
    most = max(rates, key=Series.mean)
    return f"PID 1 used {most.mean():.2f} of a core", (most.figure("process_cores"),)


def _used(timeline: Timeline, subject: str) -> Series:
    user, system = timeline.rate(_USER, subject), timeline.rate(_SYSTEM, subject)
    if len(user) != len(system) or not len(system):
        return system
    return replace(system, values=system.values + user.values)


def _wanted(timeline: Timeline, used: Series) -> Series:
    """With the time that it waited for a core: on a node with other work it has as much to do, and gets less done."""
    waited = np.nan_to_num(timeline.rate(_DELAY, used.subject).sampled(used.at))
    return replace(used, values=used.values + np.where(used.values >= LEAST, waited, 0.0))


def _finding(timeline: Timeline, subject: str, busy: Series) -> Finding:
    mounts = timeline.series("mounts")
    spent = timeline.series("mounts_read_cpu_seconds")
    known = [it.latest for it in (mounts, spent) if len(it)] if subject.endswith("[1]") else []
    table = ""
    if len(known) == 2:
        each = f"{known[1].value * 1e3:.1f} ms"
        table = f"; there are {known[0].value:,.0f} mounts, and one read of their table takes {each}"
    shown, does = _does(timeline, subject, busy.span)
    contended = waited_anywhere(timeline, busy.span, spent=busy.mean())
    answers = timeline.series(_ANSWER).between(busy.span)
    silent = _unanswered(timeline, busy.span)
    slow = silent or ([answers.reading(int(answers.values.argmax()))] if len(answers) else [])
    late = bool(silent) or (bool(slow) and slow[0].value >= LATE)
    delay = timeline.rate(_DELAY, subject, within=busy.span)
    waits = f", and waited for one for {percent(delay.mean())} of it" if len(delay) and delay.mean() >= SAID else ""
    asked = f"; a question took it {lasting(slow[0].value)}" if late else ""
    if silent:
        asked = f"; a question got {harmless(silent[0].text, most=40)}"
    return Finding(
        subject=subject,
        span=busy.span,
        says=(
            f"used {busy.mean():.2f} of a core for {lasting(busy.span.seconds)}, of the one that it has{waits}"
            f"{does}{asked}{table}"
        ),
        evidence=(busy.figure("process_cores"), *known, *shown, *slow),
        # It is one thread: a client waits while it is busy with something else, as we did.
        harm=Harm(
            parts=(
                Part(figure="burnt", who=subject, amount=busy.mean(), span=busy.span, contended=contended),
                *([Part(figure="waited", who=subject, amount=busy.mean(), span=busy.span)] if late else []),
            ),
            unknown=() if slow else ("waited",),
        ),
    )


def _unanswered(timeline: Timeline, span: Span) -> list[Reading]:
    """A question of ours that it left without an answer."""
    looks = timeline.looks(_ANSWER).between(span)
    failed = [it for it in range(len(looks)) if not looks.values[it] and looks.texts.get(it, "").startswith(UNANSWERED)]
    return [looks.reading(it) for it in failed[:1]]


def _does(timeline: Timeline, subject: str, span: Span) -> tuple[list[Reading], str]:
    """What its stacks show most of, where there are any."""
    pid = int(subject.rpartition("[")[2].rstrip("]"))
    every = timeline.samples(span)
    own = every.only(every.pid == pid)
    if not len(own) or not own.seconds:
        return [], ""
    shares = []
    for family, words in _WORK.items():
        inside = timeline.samples(span, wanted=lambda frames, family=family: shows(frames, family))  # type: ignore[misc]
        its = inside.only(inside.pid == pid)
        shares += [(its.seconds / own.seconds, words, its)] if len(its) else []
    share, words, its = max(shares, key=lambda it: it[0], default=(0.0, "", own))
    if share < PART:
        return [], ""
    return [its.reading(subject, "init_sampled_seconds")], f", {percent(share)} of it {words}"
