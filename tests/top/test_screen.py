"""The screen of `top`: any node on any terminal, without a line too many or too long."""

from __future__ import annotations

import numpy as np
import pytest

from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.cores import MODES
from zombiescope.top.frame import Core, Frame, Task, frame_of
from zombiescope.top.screen import PANES, View, painted
from zombiescope.top.text import bar, columns, cut, plain

HOSTILE = "evil\x1b[31m\nname\u202e漢字" * 8


def node(cores: int, **more: object) -> Frame:
    """One core is busy in the kernel, the others idle or in a program."""
    every = [
        Core(it, 0.3 if it % 3 and it != 7 else 0.0, 0.97 if it == 7 else 0.02, 0.0, 0.0, 0.0) for it in range(cores)
    ]
    every.sort(key=lambda it: -it.kernel)
    tasks = tuple(Task(f"{HOSTILE}[{it}]", 0.5, None if it % 2 else 0.1, f"/{HOSTILE}") for it in range(30))
    return Frame(at=1.79e9, cores=tuple(every), running=3, dying=68_440, live=240, growth=-3.0, tasks=tasks, **more)  # type: ignore[arg-type]


def looked() -> dict[str, object]:
    finding: dict[str, object] = {
        "rank": "cause",
        "sign": "crash_looping_unit",
        "subject": "ecs.service",
        "says": "keeps crashing",
    }
    finding |= {"cost": "costs 1.9 of 192 cores", "chain": ["a", "b"], "evidence": ["x 1"], "next": ["zombiescope fix"]}
    return {
        "state": "PROBLEM",
        "says": "ecs.service keeps crashing",
        "findings": [finding] * 9,
        "sampled": 30.0,
        "cores": {"7": [["walker[9]", 28.0, ["main", "read", "memcg_stat_show", "css_rstat_flush"]]]},
        "tasks": {},
    }


def text(view: View, width: int, height: int) -> list[str]:
    lines = painted(view, width, height)
    assert len(lines) <= height
    assert all(sum(columns(piece) for piece, _ in line) <= width for line in lines)
    shown = [plain(line) for line in lines]
    assert not any("\x1b" in it or "\n" in it or "\u202e" in it for it in shown)
    return shown


@pytest.mark.parametrize("size", [(80, 24), (100, 35), (40, 10), (192, 50), (1, 1), (39, 9), (80, 8)])
@pytest.mark.parametrize("cores", [1, 2, 96, 192, 1024])
@pytest.mark.parametrize("pane", PANES)
def test_it_fits_everywhere(size: tuple[int, int], cores: int, pane: str) -> None:
    view = View(node=HOSTILE, kernel="6.1", frame=node(cores, blind=(HOSTILE,)), look=looked(), pane=pane)
    view.chosen = dict.fromkeys(PANES, 10_000)
    text(view, *size)
    for detail in (("core", "7"), ("core", "99999"), ("process", f"{HOSTILE}[3]"), ("finding", "gone x"), None):
        view.detail, view.help = detail, detail is None
        text(view, *size)


def test_192_cores_are_all_in_40_lines_and_the_worst_is_first() -> None:
    shown = text(View(frame=node(192), look=looked(), pane="findings"), 100, 60)
    cells = " ".join(shown)
    assert all(f" {it} " in f" {cells} " for it in range(192))
    first = next(place for place, it in enumerate(shown) if "CORES" in it) + 1
    assert shown[first].split()[:2] == ["7", "97s"]
    last = next(place for place, it in enumerate(shown) if "FINDINGS" in it)
    assert last - first <= 40


def test_who_runs_on_the_worst_core_is_named_with_its_innermost_functions() -> None:
    shown = text(View(frame=node(192), look=looked(), pane="findings"), 80, 24)
    (line,) = [it for it in shown if it.startswith("cpu 7:")]
    assert "walker[9] 93 %" in line
    assert line.endswith("css_rstat_flush")


def test_before_the_first_look_and_after_one_that_failed_nothing_is_claimed() -> None:
    shown = "\n".join(text(View(frame=node(4)), 80, 24))
    assert "looking for the first time" in shown and "OK" not in shown
    failed = "\n".join(text(View(frame=node(4), look={"error": "no memory"}), 80, 24))
    assert "no look: no memory" in failed and "FINDINGS (0)" in failed


def test_what_was_not_counted_is_not_zero() -> None:
    shown = "\n".join(text(View(frame=Frame(at=0.0)), 80, 24))
    assert "dying cgroups: not counted" in shown
    assert "softirqs" not in shown


def test_a_bar_is_as_long_as_asked_and_says_its_modes_without_colour() -> None:
    line = bar(Core(0, 0.25, 0.5, 0.0, 0.25, 0.0), 20)
    assert plain(line) == "s" * 10 + "q" * 5 + "u" * 5
    assert len("".join(it for it, _ in bar(Core(0, 0.9, 0.9, 0.9, 0.9, 0.9), 20))) == 20
    assert cut("漢字漢字", 5) == "漢字…"


def test_a_core_that_is_read_once_has_no_share_yet() -> None:
    def counter(what: str, values: list[float]) -> Series:
        at = np.arange(len(values), dtype=float)
        return Series(what=what, subject="cpu:0", at=at, values=np.array(values), until=at[-1], sources=("x",))

    def timeline(many: int) -> Timeline:
        modes = [it for parts in MODES.values() for it in parts] + ["idle", "iowait"]
        values = {"system": [0.0, 0.9, 1.8, 2.7], "idle": [0.0, 0.1, 0.2, 0.3]}
        series = [counter(f"cpu_{it}_seconds_total", values.get(it, [0.0] * 4)[:many]) for it in modes]
        return Timeline(series, {it.what: counter("looked", [1.0] * many) for it in series})

    assert frame_of(timeline(1), 0.0).cores == ()
    (core,) = frame_of(timeline(4), 3.0).cores
    assert core.system == pytest.approx(0.9) and core.busy == pytest.approx(0.9)
