"""What is shown, line by line, for a terminal of any size. Pure: what to show goes in, lines with styles come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from zombiescope.core import harmless, percent
from zombiescope.top.frame import Core, Frame, Task
from zombiescope.top.text import Line, bar, beside, columns, cut, fitted

KEYS = "q quit  ? help  space pause  ←→ time  Tab pane  ↑↓ choose  Enter open  Esc back"
PANES = ("cores", "findings", "processes")
FULL = 0.9  # of a core: from here on it is shown as bad
NARROWEST, LOWEST = 40, 10  # columns and lines that a screen needs


@dataclass(slots=True)
class View:
    """All that a screen shows."""

    node: str = ""
    kernel: str = ""
    state: str = "LIVE"  # or PAUSED, REPLAY, PLAYING, and how far back
    frame: Frame | None = None
    look: Mapping[str, Any] | None = None
    pane: str = "cores"
    chosen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PANES, 0))
    detail: tuple[str, str] | None = None  # what is open: ("core", "3")
    scrolled: int = 0  # lines, in what is open
    help: bool = False
    message: str = ""
    history: Sequence[Frame] = ()  # the frames before this one, the newest last
    ascii_only: bool = False


def painted(view: View, width: int, height: int) -> list[Line]:
    """At most `height` lines of at most `width` columns."""
    from zombiescope.top.details import detail, help_lines

    if width < NARROWEST or height < LOWEST:
        return [[(cut(f"too small: at least {NARROWEST} × {LOWEST}", width), "bad")]][:height]
    top = [_title(view, width), *_figures(view)]
    room = height - len(top) - 1
    if view.help:
        body = help_lines()
    elif view.detail is not None:
        body = detail(view, width)
    else:
        body = _panes(view, width, room)
    if view.help or view.detail is not None:
        view.scrolled = max(min(view.scrolled, len(body) - room), 0)
        body = body[view.scrolled : view.scrolled + room]
    body = body[:room] + [[] for _ in range(room - len(body))]
    last: Line = [(view.message, "warn")] if view.message else [(KEYS, "dim")]
    return [fitted(it, width) for it in (*top, *body, last)]


def _title(view: View, width: int) -> Line:
    left = f"zombiescope top  {harmless(view.node)}  {harmless(view.kernel)}"
    clock = f"{_clock(view.frame.at)} UTC  " if view.frame is not None else ""
    style = "good" if view.state == "LIVE" else "warn"
    return beside([(left, "title")], [(clock, "bold"), (view.state, style)], width)


def _figures(view: View) -> list[Line]:
    frame, look = view.frame, view.look
    if frame is None:
        return [[("reading…", "dim")]]
    verdict: Line = [("looking for the first time…", "dim")]
    if look is not None and "error" in look:
        verdict = [(f"no look: {look['error']}", "warn")]
    elif look is not None:
        style = {"PROBLEM": "bad", "OK": "good"}.get(look["state"], "warn")
        verdict = [(f"{look['state']} ", style), (look["says"], "")]
    busy = sum(it.busy for it in frame.cores)
    said = [f"{len(frame.cores)} cores, {busy:.1f} busy"]
    said += [f"{frame.running:.0f} runnable, {frame.blocked or 0:.0f} blocked"] if frame.running is not None else []
    said += [f"memory {percent(frame.memory_free)} free"] if frame.memory_free is not None else []
    said += [f"pressure {' '.join(f'{name} {percent(it)}' for name, it in frame.pressure.items())}"] * bool(
        frame.pressure
    )
    return [verdict, [("  ".join(said), "")], _leaks(frame), _blind_line(frame)][: 4 if frame.blind else 3]


def _leaks(frame: Frame) -> Line:
    line: Line = []
    if frame.dying is None:
        line.append(("dying cgroups: not counted", "warn"))
    else:
        grown = f" ({frame.growth:+,.0f} an hour)" if frame.growth else ""
        line.append((f"dying cgroups {frame.dying:,.0f}{grown}, live {frame.live or 0:,.0f}", _many(frame.dying)))
    if frame.softirq_wait is not None:
        style = "bad" if frame.softirq_wait >= 0.1 else ""
        who = f" ({harmless(frame.softirq_who)})" if frame.softirq_who else ""
        line.append((f"  softirqs waited up to {frame.softirq_wait * 1e3:.0f} ms{who}", style))
    if frame.throttled:
        line.append((f"  throttled {sum(it for _, it in frame.throttled):.1f} cores", "warn"))
    return line


def _blind_line(frame: Frame) -> Line:
    more = f" and {len(frame.blind) - 1} more" if len(frame.blind) > 1 else ""
    return [(f"not read: {harmless(frame.blind[0])}{more}", "warn")] if frame.blind else []


def _many(dying: float) -> str:
    return "warn" if dying >= 1_000 else ""


def _panes(view: View, width: int, room: int) -> list[Line]:
    """Cores get half of the room if they need it, findings a third of the rest, processes what is left."""
    frame = view.frame
    if frame is None:
        return []
    findings = (view.look or {}).get("findings", [])
    for_findings = min(max(len(findings), 1), max(room // 5, 2))
    cores = _cores(view, frame, width, max(room // 2 - 1, 3))
    lines = [_head(view, "cores", f"CORES, the worst first ({len(frame.cores)})", width), *cores]
    lines += [_head(view, "findings", f"FINDINGS ({len(findings)})", width)]
    lines += _findings(view, findings, width, for_findings)
    lines += [_head(view, "processes", "PROCESSES  cores  waiting  cgroup", width)]
    return lines + _processes(view, frame.tasks, width, room - len(lines))


def _head(view: View, pane: str, text: str, width: int) -> Line:
    mark = ">" if view.pane == pane else " "
    return [(f"{mark}{text} ".ljust(width, "-"), "bold" if view.pane == pane else "dim")]


def _window(view: View, pane: str, many: int, room: int) -> range:
    """The rows that are in sight, so that the chosen one is."""
    chosen = view.chosen[pane] = max(min(view.chosen[pane], many - 1), 0)
    first = max(min(chosen - room // 2, many - room), 0)
    return range(first, min(first + room, many))


def _cores(view: View, frame: Frame, width: int, room: int) -> list[Line]:
    """A line each where there is room; else cells beside each other; at the end who runs on the worst."""
    many = len(frame.cores)
    if not many:
        return [[("no core was read twice yet", "dim")]]
    rows = room - 1
    if many <= rows:
        lines = [_wide(view, it, place, width) for place, it in enumerate(frame.cores)]
    else:
        narrow = len(str(max(it.number for it in frame.cores))) + 7
        cell = next((it for it in (38, 26, 19, narrow) if width // it * rows >= many), narrow)
        across = max(width // cell, 1)
        window = _window(view, "cores", -(-many // across), rows) if view.pane == "cores" else range(rows)
        if view.pane == "cores":  # the chosen one is a core, not a row
            view.chosen["cores"] = min(view.chosen["cores"], many - 1)
            first = max(min(view.chosen["cores"] // across - rows // 2, -(-many // across) - rows), 0)
            window = range(first, min(first + rows, -(-many // across)))
        lines = []
        for row in window:
            line: Line = []
            for place in range(row * across, min((row + 1) * across, many)):
                line += _cell(view, frame.cores[place], place, cell)
            lines.append(line)
    return [*lines, _on_worst(view, frame, width)]


def _wide(view: View, core: Core, place: int, width: int) -> Line:
    size = max(min(width - 56, 60), 10)
    shares = "  ".join(
        f"{name} {share * 100:3.0f}"
        for name, share in (
            ("sys", core.system),
            ("soft", core.softirq + core.irq),
            ("user", core.user),
            ("steal", core.steal),
        )
    )
    mark = "chosen" if view.pane == "cores" and view.chosen["cores"] == place else _hot(core)
    return [(f"cpu {core.number:<4}", mark), ("[", "dim"), *bar(core, size), ("] ", "dim"), (f"{shares} %", "")]


def _cell(view: View, core: Core, place: int, width: int) -> Line:
    mark = "chosen" if view.pane == "cores" and view.chosen["cores"] == place else _hot(core)
    letter = max(
        (core.system, "s"), (core.softirq + core.irq, "q"), (core.user, "u"), (core.steal, "t"), key=lambda it: it[0]
    )[1]
    short = f"{core.number:>3} {core.busy * 100:3.0f}{letter if core.busy >= 0.005 else ' '}"
    size = width - len(short) - 4
    if size < 4:
        return [(short.ljust(width - 1), mark), (" ", "")]
    return [(short, mark), (" [", "dim"), *bar(core, size), ("] ", "dim")]


def _hot(core: Core) -> str:
    return "bad" if core.kernel + core.steal >= FULL else "warn" if core.kernel + core.steal >= FULL / 2 else ""


def _on_worst(view: View, frame: Frame, width: int) -> Line:
    """Who runs on the worst core, or on the chosen one, and in which stack."""
    place = view.chosen["cores"] if view.pane == "cores" else 0
    core = frame.cores[min(place, len(frame.cores) - 1)]
    if view.look is None or "error" in view.look:
        return [(f"cpu {core.number}: stacks come with the first look", "dim")]
    who = view.look["cores"].get(str(core.number), [])
    if not who:
        return [(f"cpu {core.number}: no samples in the last {view.look['sampled']:.0f} s", "dim")]
    name, seconds, stack = who[0]
    begin = f"cpu {core.number}: {name} {percent(seconds / max(view.look['sampled'], 1))}: "
    return [(begin, "bold"), (_innermost(stack, width - columns(begin)), "")]


def _innermost(stack: Sequence[str], width: int) -> str:
    """As many of the innermost functions as there is room for, the outermost of them first."""
    shown = ""
    for name in reversed(stack):
        longer = f"{name} › {shown}" if shown else name
        if columns(longer) > width and shown:
            return shown
        shown = longer
    return cut(shown, width)


def _findings(view: View, findings: Sequence[Mapping[str, Any]], width: int, room: int) -> list[Line]:
    if not findings:
        said = "none" if view.look is not None else "the first look is under way"
        return [[(said, "dim")]]
    lines = []
    for place in _window(view, "findings", len(findings), room):
        it = findings[place]
        style = {"cause": "bad", "found": "warn"}.get(it["rank"], "dim")
        mark = "chosen" if view.pane == "findings" and view.chosen["findings"] == place else style
        cost = f"  {it['cost']}" if it["cost"] else ""
        lines.append(fitted([(f"{it['sign']}", mark), (f" {it['subject']}", ""), (cost, style)], width))
    return lines


def _processes(view: View, tasks: Sequence[Task], width: int, room: int) -> list[Line]:
    if not tasks:
        return [[("none used a core, or they were not read yet", "dim")]]
    lines = []
    for place in _window(view, "processes", len(tasks), max(room, 1)):
        it = tasks[place]
        mark = "chosen" if view.pane == "processes" and view.chosen["processes"] == place else ""
        waited = "      –" if it.waited is None else f"{it.waited:7.2f}"
        name = cut(harmless(it.name), 28)
        line = f"{name}{' ' * (28 - columns(name))} {it.cpu:6.2f} {waited}  {harmless(it.cgroup)}"
        lines.append([(cut(line, width), mark)])
    return lines


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
