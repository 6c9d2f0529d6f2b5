"""Fetch a card's packets with threads of real-time priority, which do not wait for busy programs on their core.

With threaded NAPI each queue is polled by a thread of its own, which can run on any core; with real-time priority it
runs before everything of ordinary priority, and before a hog of lower priority. One command does both: a NAPI thread of
ordinary priority waits behind a real-time hog, which is worse than no thread at all (median round trip on a core with
such a hog: 36 ms; with threads of priority 60, 0.08 ms). For the hog itself there is advice, if packets wait for it.

Safe: where NAPI is threaded already, only the priority of its threads is changed.
Disruptive: where it is not, because threads cost throughput (1.7 to 1.1 Gbit/s over a pair of veth); no packet is lost.
    A flood of packets then starves programs, up to what real-time throttling leaves them.
Does not fix: the hog, and what else waits for it; a core whose interrupts are off, because its card's interrupts do not
    arrive then (see move_irq_off_core); a card that is taken down and up again has new threads.
References: Documentation/networking/napi.rst, "Threaded NAPI" (since v5.12); sched(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.commands import in_sentence, is_card
from zombiescope.core.forms import NIC, NUMBER, Form
from zombiescope.core.timeline import Timeline
from zombiescope.core.witness import Witness
from zombiescope.derived.nic_queues import served
from zombiescope.places.own_python import own_python

CURES = ("starved_softirq", "realtime_hog")
RESTS_ON = {
    "nic_irq_cpu": Witness.NAMES,  # which card an interrupt is of is read from the name that its driver gave it
    # NAPI threads are named after the card, also after one in the network namespace of a container.
    "thread_run_delay_seconds_total": Witness.NAMES,
    "thread_realtime_cpu": Witness.KERNEL,
    "process_cpu": Witness.KERNEL,
}
COMMAND = own_python("zombiescope.treatment.napi_command")
PRIORITY = 60  # above threaded interrupts, 50
_THREADED = "/sys/class/net/{nic}/threaded"
FORMS = tuple(
    Form(
        argv=(*COMMAND, verb, "{nic}", "{priority}"),
        undo=(*COMMAND, "lower", "{nic}", "{priority}"),
        keeps=(_THREADED,),
        varies={"nic": NIC, "priority": NUMBER},
    )
    for verb in ("thread", "raise")
)
HIGHEST = 97  # higher priorities are left to watchdogs
SINCE = (5, 12)  # of Linux: 5fdd2f0e5c64 ("net: add sysfs attribute to control napi threaded mode")
_CORES = ("process_cpu", "thread_realtime_cpu")
_THREAD = re.compile(r"thread:napi/(.+)-\d+", re.DOTALL)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    cpu = _core(finding)
    starved = [it for it in case.findings if it.sign == "starved_softirq" and _core(it) == cpu and _waits(it)]
    if cpu is None or not starved or _too_old(case.kernel):
        return None
    threaded = {found[1] for it in timeline.subjects("thread_run_delay_seconds_total") if (found := _THREAD.match(it))}
    nics = {queue.nic for queue in served(timeline, cpu) if queue.nic}
    nics |= {found[1] for each in starved for it in each.evidence if (found := _THREAD.match(it.subject))}
    nics = {nic for nic in nics if is_card(nic)}  # any thread may be called napi/../..-1
    if not nics:
        return None
    hogs = sorted((it for it in case.findings if it.sign == "realtime_hog" and _core(it) == cpu), key=_priority)
    priority = max([PRIORITY, *(_priority(hog) + 1 for hog in hogs)])
    if finding.sign == "realtime_hog" or priority > HIGHEST:
        steps = tuple(_advice(finding if finding in hogs else hogs[-1], cpu, priority))
        return Plan(cures=finding, risk="safe", proof=(finding.sign,), steps=steps)
    return Plan(
        cures=finding,
        risk="safe" if nics <= threaded else "disruptive",
        proof=(finding.sign,),
        steps=tuple(_step(nic, priority, "raise" if nic in threaded else "thread") for nic in sorted(nics)),
    )


def _advice(hog: Finding, cpu: int, priority: int) -> Iterator[Step]:
    """The hog itself can be changed only where its priority was set; what waits for it can be fixed here."""
    name = harmless(hog.subject.partition(":")[2])
    number = re.search(r"\[(\d+)\]$", name)
    chrt = f": {in_sentence('chrt', '--other', '--pid', '0', number[1])}" if number else ""
    yield Step(says=f"packets of core {cpu} wait for {name}: give it a core of its own, or no real-time priority{chrt}")
    if priority > HIGHEST:
        yield Step(says=f"nothing can be put above its priority, {_priority(hog)}: lower it to less than {HIGHEST}")
    else:
        fix = in_sentence("zombiescope", "fix", "raise_napi_priority")
        yield Step(says=f"or put the card's threads above it: {fix}")


def _step(nic: str, priority: int, verb: str) -> Step:
    return Step(
        says=f"poll {harmless(nic)} with threads and give them SCHED_FIFO {priority}",
        argv=(*COMMAND, verb, nic, str(priority)),
        keeps=(_THREADED.format(nic=nic),),
        undo=(*COMMAND, "lower", nic, str(priority)),
    )


def _core(finding: Finding) -> int | None:
    """The core it is about: the finding's subject, or the core a hog ran on."""
    if finding.subject.startswith("cpu:"):
        return int(finding.subject[4:])
    return next((int(it.value) for it in finding.evidence if it.what in _CORES), None)


def _waits(starved: Finding) -> bool:
    """Whether a thread waits for its turn. Where interrupts are off, no priority helps."""
    return any(it.what == "thread_run_delay_ratio" for it in starved.evidence)


def _priority(hog: Finding) -> int:
    return int(max((it.value for it in hog.evidence if it.what.endswith("_realtime_priority")), default=0))


def _too_old(kernel: str) -> bool:
    version = re.match(r"(\d{1,4})\.(\d{1,4})", kernel)
    return version is not None and (int(version[1]), int(version[2])) < SINCE
