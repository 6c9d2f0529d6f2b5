"""Hooks that somebody put into every system call take a large part of the node's time: BPF, seccomp, audit, fanotify.

Why it hurts: a hook runs in the program that it watches, on its time. A security agent's BPF program at every system
    call, an audit rule for every open, a virus scanner that must allow each file: all programs become slower, and no
    profile of one program shows why.
False alarms: BPF that handles packets (a CNI's data path) is that node's network and is not counted; a seccomp filter
    costs 0.1 µs a call everywhere. Only a twentieth of all work, and a tenth of a core at least, counts.
References: kernel/seccomp.c; kernel/auditsc.c; kernel/trace/bpf_trace.c; Documentation/bpf.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from zombiescope.core import Finding, Reading, Span, harmless, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.derived.kernel_log import lines_of, logged
from zombiescope.derived.sampled_work import busy_seconds, by_process, length, spells, spent_in
from zombiescope.knowledge.functions import families, plain, shows

# Scale: a share of all work, which grows with the node, and cores' worth.
NEEDS = ("samples_total", "kernel_symbols")
SHARE = 0.05  # of all that was done: less is what seccomp costs on every node
CORES = 0.1  # of a core, over the spell: less harms nobody
NAMED = 3  # programs that pay for it, named in a sentence
PAYERS = 20  # whose lost time is counted one by one: more pay less
SHOWN = 3  # lines of the log, as evidence
_HOLDER, _PROGRAM = "bpf_program", "BPF program "
# A program: its tag and its name. bpf_prog_load() is the kernel's own, as are a dozen others of that beginning.
_PROGRAM_NAME = re.compile(r"bpf_prog_[0-9a-f]{16}(?:_(\w+))?")


def find(timeline: Timeline) -> Iterator[Finding]:
    hooks = timeline.once(_hooks)
    for hook, samples in sorted(_by_hook(hooks).items(), key=lambda it: -it[1].seconds):
        for work in spells(f"hook:{hook}", samples):
            cores, all_of_it = work.seconds / max(work.span.seconds, 1.0), busy_seconds(timeline, work.span)
            if cores < CORES or work.seconds < SHARE * all_of_it:
                continue
            everyone = by_process(work.samples)
            payers, holder = everyone[:NAMED], _loaded(timeline, hook)
            names = ", ".join(harmless(it[0].removeprefix("process:")) for it in payers)
            lines = lines_of(timeline, "audit_backlog") if hook == "audit" else []
            lost = logged(lines, "times that audit records wait or are lost")
            yield Finding(
                subject=f"hook:{hook}",
                span=work.span,
                says=(
                    f"took {work.seconds:.1f} s of {length(timeline):.0f} s, {percent(work.seconds / all_of_it)} of "
                    f"all that was done, most in {names}{_whose(holder)}{lost}"
                ),
                evidence=(
                    work.samples.reading(f"hook:{hook}", "hook_sampled_seconds"),
                    *(line.reading for line in lines[:SHOWN]),
                    *([holder] if holder is not None else []),
                ),
                culprit=f"process:{holder.text}" if holder is not None and holder.text else "",
                harm=Harm(parts=tuple(_lost(everyone[:PAYERS], work.span))),
            )


def _lost(payers: list[tuple[str, Samples]], span: Span) -> Iterator[Part]:
    """A hook runs on the time of the program that it watches, which stands still meanwhile."""
    for subject, own in payers:
        yield Part(figure="waited", who=subject, amount=own.seconds / max(span.seconds, 1.0), span=span)


def _loaded(timeline: Timeline, hook: str) -> Reading | None:
    """Who holds the BPF program of that name; None where nobody was seen to."""
    held = timeline.series(_HOLDER, f"bpf:{hook.removeprefix(_PROGRAM)}")
    return held.latest if hook.startswith(_PROGRAM) and len(held) else None


def _whose(holder: Reading | None) -> str:
    return f"; it was loaded by {harmless(holder.text)}" if holder is not None and holder.text else ""


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    return spent_in(timeline, timeline.once(_hooks), "hook_sampled_seconds", "hooks")


def _hooks(timeline: Timeline) -> Samples:
    return timeline.samples(wanted=_hooked)


def _hooked(frames: Sequence[str]) -> bool:
    bpf = any(_PROGRAM_NAME.match(frame) for frame in frames)
    return (bpf or shows(frames, "hook")) and not shows(frames, "packet_bpf")


def _by_hook(samples: Samples) -> dict[str, Samples]:
    found: dict[str, list[int]] = {}
    for stack in np.unique(samples.stack).tolist():
        found.setdefault(_which(samples.frames.names(stack)), []).append(stack)
    return {hook: samples.only(np.isin(samples.stack, stacks)) for hook, stacks in found.items()}


# bpf_prog_6deef7357e7b4530_sys_enter
def _which(frames: Sequence[str]) -> str:
    """The program's own name where there is one; else what kind of hook it is."""
    named = next((found for frame in frames if (found := _PROGRAM_NAME.match(frame))), None)
    if named is not None:
        return f"{_PROGRAM}{named[1] or plain(named.string)}"
    hooks = [it for it in families() if it.family == "hook"]
    return next((it.says for frame in frames for it in hooks if plain(frame) in it.names), "unknown")
