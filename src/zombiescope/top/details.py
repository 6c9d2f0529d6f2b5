"""What is opened with Enter: a core, a finding, a process and its cgroup; and the help."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from zombiescope.core import harmless, percent
from zombiescope.top.screen import View
from zombiescope.top.text import Line, bar, curve

_PID = re.compile(r"\[(\d+)\]$")
HELP = (
    ("space", "pause, and go on; in a recording: play, and stop"),
    ("← →", "two seconds back, and forward; also , and ."),
    ("PageUp PageDown", "a minute back, and forward"),
    ("Home End", "the start of the recording; its end, live again"),
    ("Tab, c f p", "the next pane; cores, findings, processes"),
    ("↑ ↓, k j", "choose a line; scroll what is open"),
    ("Enter", "open it: a core, a finding, a process with its cgroup"),
    ("Esc, Backspace", "close it"),
    ("r", "draw the screen anew"),
    ("q, Ctrl-C", "quit"),
)


def help_lines() -> list[Line]:
    rows: list[Line] = [[(f" {keys:<18}", "bold"), (says, "")] for keys, says in HELP]
    about = (
        "A core's bar: s system, q softirq, i interrupts, u user, t steal. The worst core has most time in the kernel "
        "or stolen. Figures are means of the last two seconds, of processes the last five to ten. Findings and stacks "
        "come from a look at the last three minutes, which is repeated every quarter of a minute or less often."
    )
    return [*rows, [], *([(it, "dim")] for it in textwrap.wrap(about, 76))]


def detail(view: View, width: int) -> list[Line]:
    kind, key = view.detail or ("", "")
    shown = {"core": _core, "finding": _finding, "process": _process}[kind]
    return list(shown(view, key, width))


def _core(view: View, key: str, width: int) -> Iterator[Line]:
    number = int(key)
    core = view.frame.core(number) if view.frame is not None else None
    yield [(f"cpu {number}", "title")]
    if core is None:
        yield [("it was not read at this moment", "warn")]
        return
    yield [("[", "dim"), *bar(core, min(width - 12, 60)), (f"] {core.busy * 100:.0f} %", "dim")]
    modes = ("system", "softirq", "irq", "user", "steal")
    yield [("  ".join(f"{it} {getattr(core, it) * 100:.0f} %" for it in modes), "")]
    past = [found.kernel for it in view.history if (found := it.core(number)) is not None]
    if len(past) > 1:
        yield [("in the kernel, until now: ", "dim"), (curve(past, width - 28, ascii_only=view.ascii_only), "system")]
    yield []
    yield from _stacks((view.look or {}).get("cores", {}).get(key, []), view, width)


def _stacks(who: Sequence[Any], view: View, width: int) -> Iterator[Line]:
    if not who:
        yield [("no samples here in the last look", "dim")]
        return
    seconds = max((view.look or {}).get("sampled", 1.0), 1.0)
    for name, spent, stack in who:
        yield [(f"{name}  {percent(spent / seconds)} of this core", "bold")]
        yield from _indented(stack, width)


def _indented(stack: Sequence[str], width: int) -> Iterator[Line]:
    for text in textwrap.wrap(" › ".join(stack[-14:]), max(width - 4, 20)):
        yield [(f"    {text}", "")]


def _finding(view: View, key: str, width: int) -> Iterator[Line]:
    found = [it for it in (view.look or {}).get("findings", []) if f"{it['sign']} {it['subject']}" == key]
    if not found:
        yield [(f"{key}: not found any more", "warn")]
        return
    it = found[0]
    yield [(f"{it['sign']}  {it['subject']}", "title")]
    for text in textwrap.wrap(it["says"], width - 1):
        yield [(text, "")]
    if it["cost"]:
        yield from (([(text, "bad" if it["rank"] == "cause" else "")]) for text in textwrap.wrap(it["cost"], width - 1))
    for heading, lines in (("what it led to", it["chain"][1:]), ("evidence", it["evidence"]), ("next", it["next"])):
        if lines:
            yield []
            yield [(heading, "bold")]
            for line in lines:
                yield from ([(text, "")] for text in textwrap.wrap(line, width - 3, initial_indent="  "))


def _process(view: View, key: str, width: int) -> Iterator[Line]:
    tasks = view.frame.tasks if view.frame is not None else ()
    task = next((it for it in tasks if it.name == key), None)
    yield [(harmless(key), "title")]
    if task is None:
        yield [("it used no core at this moment, or it has ended", "warn")]
    else:
        waited = "not read" if task.waited is None else f"{task.waited:.2f} of a core"
        yield [(f"runs {task.cpu:.2f} cores' worth; its first thread waits for a core {waited}", "")]
        yield from _cgroup(view, task.cgroup, width)
    yield []
    pid = _PID.search(key)
    stacks = (view.look or {}).get("tasks", {}).get(pid[1] if pid else "", [])
    if not stacks:
        yield [("no samples of it in the last look", "dim")]
    for seconds, stack in stacks:
        yield [(f"{seconds:.2f} s in", "bold")]
        yield from _indented(stack, width)


def _cgroup(view: View, path: str, width: int) -> Iterator[Line]:
    """All that is known of the cgroup that a process is in."""
    if not path or view.frame is None:
        yield [("its cgroup was not read", "dim")]
        return
    inside = [it for it in view.frame.tasks if it.cgroup == path]
    throttled = dict(view.frame.throttled).get(path, 0.0)
    yield []
    yield [(f"cgroup {harmless(path)}", "title")]
    said = f"{len(inside)} busy processes, {sum(it.cpu for it in inside):.2f} cores"
    yield [(said + (f", throttled {throttled:.2f} cores' worth" if throttled else ", not throttled"), "")]
    for it in inside[:5]:
        yield [(f"  {harmless(it.name):<30} {it.cpu:6.2f}"[:width], "")]
