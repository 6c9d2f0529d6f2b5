"""What a key does: to the view, and to the moment that is shown."""

from __future__ import annotations

from typing import Any

from zombiescope.top.moments import STEP, Moments
from zombiescope.top.screen import PANES, View

MINUTE = 60.0
ALIASES = {
    ",": "left",
    ".": "right",
    "k": "up",
    "j": "down",
    "h": "left",
    "l": "right",
    "\x7f": "escape",
    "\x08": "escape",
}
QUIT = ("q", "Q", "\x03", "\x04")


def pressed(key: str, view: View, moments: Moments) -> None:
    """One key; what it does not know it ignores."""
    key = ALIASES.get(key, key)
    if view.help:
        view.help = False
    elif key == "?":
        view.help, view.scrolled = True, 0
    elif key in _TIME:
        _TIME[key](moments)
    elif key == " ":
        _pause(moments)
    elif key in ("up", "down"):
        _choose(view, moments, -1 if key == "up" else 1)
    elif key in ("\t", "c", "f", "p"):
        place = (PANES.index(view.pane) + 1) % len(PANES)
        view.pane = {"c": "cores", "f": "findings", "p": "processes"}.get(key, PANES[place])
        view.detail = None
    elif key in ("\n", "\r", "enter"):
        _open(view)
    elif key == "escape":
        view.detail = None
        view.scrolled = 0


def _pause(moments: Moments) -> None:
    if moments.at is None and moments.frames:
        moments.at = moments.frames[-1].at
        moments.playing = False
    elif moments.live and not moments.playing and moments.at is not None and moments.at >= moments.span.end - 2 * STEP:
        moments.at = None
    else:
        moments.playing = not moments.playing


def _start(moments: Moments) -> None:
    moments.at = moments.span.start + STEP


def _end(moments: Moments) -> None:
    moments.move(float("inf"))
    moments.playing = False


_TIME: dict[str, Any] = {
    "left": lambda it: it.move(-STEP),
    "right": lambda it: it.move(STEP),
    "page-up": lambda it: it.move(-MINUTE),
    "page-down": lambda it: it.move(MINUTE),
    "home": _start,
    "end": _end,
}


def _choose(view: View, moments: Moments, step: int) -> None:
    if view.detail is not None:
        view.scrolled = max(view.scrolled + step, 0)
        return
    frame, look = moments.frame(), moments.look() or {}
    many = {
        "cores": len(frame.cores) if frame is not None else 0,
        "findings": len(look.get("findings", [])),
        "processes": len(frame.tasks) if frame is not None else 0,
    }[view.pane]
    view.chosen[view.pane] = max(min(view.chosen[view.pane] + step, many - 1), 0)


def _open(view: View) -> None:
    """What is chosen, by its name: it stays open while it moves in the list."""
    place = view.chosen[view.pane]
    view.scrolled = 0
    if view.pane == "findings":
        findings = (view.look or {}).get("findings", [])
        if place < len(findings):
            view.detail = ("finding", f"{findings[place]['sign']} {findings[place]['subject']}")
    elif view.frame is not None and view.pane == "cores" and place < len(view.frame.cores):
        view.detail = ("core", str(view.frame.cores[place].number))
    elif view.frame is not None and view.pane == "processes" and place < len(view.frame.tasks):
        view.detail = ("process", view.frame.tasks[place].name)
