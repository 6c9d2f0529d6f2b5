"""The incident as a Case, whole: five stalls of a core by a cgroup walker, five driver resets, two jobs lost.

Twelve minutes of a node, once a second, with rivals, a riddle, blind eyes, answers, remedies and a hostile neighbour.
"""

from __future__ import annotations

import itertools

from tests.nodes import T0
from tests.outputs.incident_readings import CURVES, LOST, SECONDS, STALLS, WAIT, at_end, reading, reset_line

from zombiescope import core
from zombiescope.lab import pinterest

STAGES = (*pinterest.TRUTH.chain, "job_failure")
HOSTILE = (
    '</code><script src="http://{canary}/evil.js"></script><img src=x onerror=alert(1)>\x1b[31m\n\udcff\u202e'
    + "é" * 120
)


def finding(sign: str, subject: str, start: float, end: float, says: str, *evidence: core.Reading) -> core.Finding:
    return core.Finding(sign=sign, subject=subject, span=core.Span(T0 + start, T0 + end), says=says, evidence=evidence)


LOOP = finding(
    "crash_looping_unit",
    "unit:ecs.service",
    0,
    SECONDS,
    "keeps crashing: 72 restarts in 12 min (6 a minute), last exit code 1, its start limit (5 in 10 s) never trips",
    reading("unit_restarts_total", "unit:ecs.service", 68_000, 0),
    at_end("unit_restarts_total", "unit:ecs.service"),
)
ZOMBIES = finding(
    "zombie_cgroups",
    "controller:memory",
    0,
    SECONDS,
    "include 68,441 dying ones still held by the kernel, 99.7 % of all (240 live), holding about 14.0 GB of memory",
    at_end("cgroups_known", "controller:memory", "memory\t4\t68681\t1"),
    at_end("cgroup_folders", "controller:memory"),
    at_end("cgroups_dying", "controller:memory"),
    reading("cgroups_dying", "controller:memory", 68_369, 0),
    reading("memory_percpu_bytes", "node", 13.1e9, SECONDS),
)
CHURN = finding(
    "cgroup_churn",
    "family:/ecs/<id>",
    0,
    SECONDS,
    "came and went 6 times a minute: 72 made, 72 removed",
    reading("cgroup_births_total", "family:/ecs/<id>", 72, SECONDS),
)
WALKER = finding(
    "cgroup_walker",
    "process:kubelet[812]",
    60,
    700,
    "walked cgroups in 97 % of its 784 samples, mostly in mem_cgroup_nr_lru_pages on cpu 5",
    reading(
        "stack_samples_total",
        "process:kubelet[812]",
        784,
        700,
        "mem_cgroup_nr_lru_pages;memcg_numa_stat_show;seq_read",
    ),
)
PILE = finding(
    "irq_pile_up",
    "cpu:5",
    60,
    700,
    "gets 38 % of all interrupts",
    reading("interrupts_total", "cpu:5", 918_273, 700),
)
THROTTLED = finding(
    "cpu_throttling",
    "container:3f9ac1",
    300,
    420,
    "was throttled in 61 % of its periods while 44 cores were idle",
    reading("cgroup_throttled_seconds_total", "container:3f9ac1", 73.5, 420),
)
RIDDLE = core.Unexplained(
    finding=THROTTLED,
    candidates=(
        core.Candidate(law="direct_reclaim_to_cpu_throttling", why_not="direct_reclaim is clear: 0 pages scanned"),
        core.Candidate(
            law="page_fault_storm_to_cpu_throttling",
            why_not="page_fault_storm is blind: $ perf_event_open: permission denied",
            blind=True,
        ),
    ),
)


def incident(canary: str = "127.0.0.1:9") -> core.Case:
    """`canary` is an address that the hostile names would make a browser ask, if one of them were obeyed."""
    hostile = HOSTILE.format(canary=canary)
    defunct = finding(
        "defunct_processes",
        f"process:{hostile}",
        0,
        SECONDS,
        f"has 23 zombie processes not reaped ({hostile})",
        *(reading("processes_defunct", f"process:{hostile}", 23 + it, it, hostile) for it in range(9)),
        reading("processes_defunct", "node", float("nan"), SECONDS),
    )
    spells = [stall(begin) for begin in STALLS]
    return core.Case(
        node="gpu-17.us-east-1a",
        kernel="5.4.0-1106-aws",
        span=core.Span(T0, T0 + SECONDS),
        findings=(LOOP, ZOMBIES, CHURN, WALKER, PILE, THROTTLED, defunct, *itertools.chain(*spells)),
        links=tuple(joined(spells)),
        verdicts=verdicts(),
        unexplained=(RIDDLE,),
        tallies=(
            core.Tally(law="starved_softirq_to_driver_reset", effects=5, explained=5, causes=5, led=5),
            core.Tally(law="driver_reset_to_job_failure", effects=2, explained=2, causes=5, led=2),
        ),
        answers=(
            core.Answer(
                question="reclaim_explains_throttling",
                state="refuted",
                says="no page was scanned in 119 of the 120 s it was throttled; correlation 0.02 over 720 s",
                evidence=THROTTLED.evidence,
            ),
            core.Answer(question="zone_explains_resets", state="cannot tell", says="one node only was recorded"),
        ),
        plans=plans(hostile),
        settings=("saturated_core.FULL=0.85",),
    )


def joined(spells: list[list[core.Finding]]) -> list[core.Link]:
    """The chain, with two rivals on weaker grounds."""
    dose = ground("dose", "72 restarts, 72 more dying", LOOP, ZOMBIES)
    walk = ground("mechanism", "its stack is the walk over dying cgroups", WALKER)
    links = [
        link(CHURN, ZOMBIES, ground("place", "the dying ones are below /ecs, where the churn is", CHURN)),
        link(LOOP, ZOMBIES, dose, ground("place", "the dying ones are below the unit's own cgroup", LOOP)),
        link(ZOMBIES, WALKER, walk, order(ZOMBIES, WALKER)),
    ]
    ran = ground("mechanism", "kubelet is 99 % of what that core ran then", WALKER)
    for spell in spells:
        core, softirq, reset, *job = spell
        here, waited = ground("place", "the same core", core), ground("dose", "4.9 s busy, 4.8 s waited", softirq)
        bound = ground("place", "queue 5's interrupt is bound to that core", reset)
        links += [
            link(WALKER, core, ran, order(WALKER, core)),
            link(PILE, core, ground("place", "the same core", PILE)),
            link(core, softirq, here, waited),
            link(softirq, reset, bound, order(softirq, reset)),
            *(link(reset, lost, ground("mechanism", "its log names the lost connection", lost)) for lost in job),
        ]
    return links


def plans(hostile: str) -> tuple[core.Plan, ...]:
    return (
        core.Plan(
            name="mask_unit",
            cures=LOOP,
            risk="safe",
            proof=("crash_looping_unit", "zombie_cgroups"),
            steps=(
                core.Step(
                    says="stop it and keep it from starting",
                    argv=("systemctl", "mask", "--now", "ecs.service"),
                    undo=("systemctl", "unmask", "ecs.service"),
                ),
            ),
        ),
        core.Plan(
            name="purge_zombies",
            cures=ZOMBIES,
            risk="disruptive",
            proof=("zombie_cgroups",),
            steps=(
                core.Step(says="write dirty pages out, or they stay", argv=("sync",)),
                core.Step(says="free the page cache that pins them", argv=("sysctl", "vm.drop_caches=1")),
                core.Step(says="end the neighbour's parent", argv=("kill", hostile)),
            ),
        ),
    )


def stall(begin: int) -> list[core.Finding]:
    """One spell of the core, and what came of it."""
    found = [
        finding(
            "saturated_core",
            "cpu:5",
            begin,
            begin + 6,
            "was 98 % busy in the kernel for 6.0 s (98 % system, 1 % user); the node's average of 4 % busy hides it",
            reading("cpu_kernel_ratio", "cpu:5", 0.98, begin),
            reading("cpu_system_ratio", "cpu:5", 0.98, begin),
            reading("cpu_busy_ratio", "node", 0.04, begin),
        ),
        finding(
            "starved_softirq",
            "cpu:5",
            begin + 0.5,
            begin + 6,
            "starved its softirqs: ksoftirqd/5 waited 4.8 s to run",
            reading(*WAIT, CURVES[WAIT](begin + 6), begin + 6),
        ),
        finding(
            "driver_reset",
            "nic:eth0",
            begin + 5,
            begin + 5,
            "was reset by driver ena: transmit stalled on queue 5 for 5.1 s",
            reset_line(begin),
        ),
    ]
    if begin in LOST:
        words = "The actor died unexpectedly before finishing this task: node unreachable"
        found.append(
            finding(
                "job_failure",
                f"job:raysubmit_{begin:03}",
                begin + 9,
                begin + 9,
                "lost its connection and died",
                reading("ray_event", f"job:raysubmit_{begin:03}", 1, begin + 9, words),
            )
        )
    return found


def ground(kind: str, says: str, *of: core.Finding) -> core.Ground:
    return core.Ground(
        kind=kind, says=says, evidence=tuple(reading for finding in of for reading in finding.evidence[:2])
    )


def order(cause: core.Finding, effect: core.Finding) -> core.Ground:
    return ground("order", f"began {effect.span.start - cause.span.start:.1f} s before", cause, effect)


def link(cause: core.Finding, effect: core.Finding, *grounds: core.Ground) -> core.Link:
    return core.Link(law=f"{cause.sign}_to_{effect.sign}", cause=cause, effect=effect, grounds=grounds)


def verdicts() -> tuple[core.Verdict, ...]:
    found = (*STAGES, "cgroup_churn", "irq_pile_up", "cpu_throttling", "defunct_processes")
    clear = {
        "slow_stat_read": "a read took 0.2 ms",
        "direct_reclaim": "0 pages scanned",
        "softirq_storm": "at most 3% of cpu:5",
        "stolen_cpu": "0.1% at most",
        "blocked_tasks": "2 at most",
        "fork_storm": "3 a second",
        "realtime_hog": "",
        "conntrack_full": "1,203 of 262,144",
        "mount_explosion": "41 mounts",
        "slab_bloat": "dentries 120.3 MB",
        "unused_agent": "every enabled agent is used",
    }
    looked = (reading("seen", "node", 1, 0),)
    refused = "$ perf_event_open: permission denied (perf_event_paranoid=4)"
    return (
        *(core.Verdict(sign=sign, state="found", says="1 found", evidence=looked) for sign in found),
        *(core.Verdict(sign=sign, state="clear", says=says, evidence=looked) for sign, says in clear.items()),
        core.Verdict(sign="page_fault_storm", state="blind", says=refused),
        core.Verdict(sign="starved_thread", state="blind", says=refused),
        core.Verdict(
            sign="oom_kill", state="blind", says="/sys/fs/cgroup/memory: only a part of the hierarchy is visible"
        ),
        core.Verdict(sign="soft_lockup", state="broken", says="KeyError: 'cpu' (soft_lockup.py:31)"),
    )
