"""The screen on a terminal, by curses: only what changed is sent. Ends cleanly, also when the terminal goes away."""

from __future__ import annotations

import curses
import locale
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from zombiescope.top.keys import QUIT, pressed
from zombiescope.top.moments import STEP, Moments
from zombiescope.top.screen import View, painted
from zombiescope.top.text import Line, columns

SHARE = 0.008  # of one core, for reading and drawing: on a large node it is done less often
SLOWEST = 10.0  # seconds between two frames
DEAF = 3  # times that a terminal may say that a key is there when none is: then it is gone
_KEYS = {
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_LEFT: "left",
    curses.KEY_RIGHT: "right",
    curses.KEY_PPAGE: "page-up",
    curses.KEY_NPAGE: "page-down",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
    curses.KEY_ENTER: "enter",
    curses.KEY_BACKSPACE: "escape",
    27: "escape",
}
_COLOURS = {
    "bad": curses.COLOR_RED,
    "warn": curses.COLOR_YELLOW,
    "good": curses.COLOR_GREEN,
    "user": curses.COLOR_BLUE,
    "system": curses.COLOR_RED,
    "soft": curses.COLOR_MAGENTA,
    "steal": curses.COLOR_CYAN,
}


class Gone(Exception):
    """The terminal was closed, or somebody ended us."""


def show(moments: Moments, trouble: Callable[[], str]) -> None:
    """Until q, Ctrl-C or the end of the terminal. `trouble`: what the recorder of ours complains about."""
    locale.setlocale(locale.LC_ALL, "")
    ascii_only = "utf" not in (locale.nl_langinfo(locale.CODESET) or "").lower()
    os.environ.setdefault("ESCDELAY", "50")  # ms: Esc alone is a key, and a slow line sends a sequence in one piece
    if not sys.__stdin__ or not os.environ.get("TERM"):
        os.environ["TERM"] = os.environ.get("TERM") or "dumb"
    before = {it: signal.getsignal(it) for it in (signal.SIGHUP, signal.SIGTERM, signal.SIGWINCH)}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    old = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        signal.signal(signal.SIGHUP, _gone)
        signal.signal(signal.SIGTERM, _gone)
        with suppress(Gone, KeyboardInterrupt):
            _Terminal(moments, trouble, woken, ascii_only=ascii_only).run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(old)
        os.close(woken)
        os.close(wake)


def _gone(*_: object) -> None:
    raise Gone


class _Terminal:
    def __init__(self, moments: Moments, trouble: Callable[[], str], woken: int, *, ascii_only: bool) -> None:
        self._moments, self._trouble, self._woken = moments, trouble, woken
        self._view = View(
            node=str(moments.meta.get("node", "")), kernel=str(moments.meta.get("kernel", "")), ascii_only=ascii_only
        )
        self._styles: dict[str, int] = {}
        self._pause = STEP
        self._unheard = 0

    def run(self) -> None:
        screen = curses.initscr()
        try:
            curses.noecho()
            curses.cbreak()
            screen.keypad(True)
            screen.nodelay(True)
            with suppress(curses.error):
                curses.curs_set(0)
            self._styles = _styles()
            self._resize(screen)  # COLUMNS and LINES of the environment may be of another terminal
            signal.signal(signal.SIGWINCH, lambda *_: None)  # wakes us up; curses's own handler would not
            self._loop(screen)
        finally:
            with suppress(curses.error):
                screen.keypad(False)
                curses.nocbreak()
                curses.echo()
            with suppress(curses.error):
                curses.endwin()

    def _loop(self, screen: Any) -> None:
        due = 0.0
        while True:
            now = time.monotonic()
            if now >= due:
                used = time.process_time()
                self._moments.refresh(time.time())
                if self._moments.playing:
                    self._moments.move(STEP)
                    self._moments.playing = self._moments.at is not None and (self._moments.at < self._moments.span.end)
                self._moments.tend(time.time())
                self._draw(screen)
                self._pause = min(max(STEP, (time.process_time() - used) / SHARE), SLOWEST)
                due = now + self._pause
            if self._wait(screen, max(due - time.monotonic(), 0.0)):
                return

    def _wait(self, screen: Any, seconds: float) -> bool:
        """For a key, a look, a new size, or the next frame; whether to quit."""
        watched = [it for it in (0, self._woken, self._moments.reading) if it >= 0]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._woken in ready:
            with suppress(BlockingIOError):
                os.read(self._woken, 512)
            self._resize(screen)
        if self._moments.reading in ready and self._moments.tend(time.time(), ready=True):
            self._draw(screen)
        if 0 in ready:
            return self._read_keys(screen)
        return False

    def _read_keys(self, screen: Any) -> bool:
        heard = False
        while (key := _key(screen)) is not None:
            heard = True
            if key in QUIT:
                return True
            if key == "resize":
                continue  # curses says so after each `resizeterm` of ours: answered with another it would never end
            if key == "r":
                screen.clear()
            else:
                if key in ("home", "page-up", "page-down", "left"):
                    self._view.message = "reading…"
                pressed(key, self._view, self._moments)
        self._unheard = 0 if heard else self._unheard + 1
        if self._unheard >= DEAF:
            raise Gone
        self._moments.tend(time.time())
        self._draw(screen)
        return False

    def _resize(self, screen: Any) -> None:
        with suppress(OSError, curses.error):
            size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
            if curses.is_term_resized(size.lines, size.columns):
                curses.resizeterm(max(size.lines, 1), max(size.columns, 1))
                screen.erase()
                self._draw(screen)

    def _draw(self, screen: Any) -> None:
        view, moments = self._view, self._moments
        view.frame, view.look, view.history = moments.frame(), moments.look(), moments.history()
        view.state = state_of(moments)
        stopped = moments.stopped_for(time.time())
        view.message = self._trouble() or (f"the recorder has written nothing for {stopped:.0f} s" if stopped else "")
        height, width = screen.getmaxyx()
        lines = painted(view, width, height)
        screen.erase()
        for row, line in enumerate(lines):
            self._put(screen, row, line, width)
        with suppress(curses.error):
            screen.refresh()

    def _put(self, screen: Any, row: int, line: Line, width: int) -> None:
        column = 0
        for text, style in line:
            shown = text.encode("ascii", "replace").decode() if self._view.ascii_only else text
            with suppress(curses.error, ValueError):  # the last cell of the last line cannot be written
                screen.addstr(row, column, shown, self._styles.get(style, 0))
            column += columns(text)
            if column >= width:
                return


def state_of(moments: Moments) -> str:
    """LIVE; how far back it is; or a recording that is not being written."""
    if moments.at is None:
        return "LIVE"
    if not moments.live:
        return "PLAYING" if moments.playing else "RECORDED"
    back = moments.span.end - moments.at
    return f"{'PLAYING' if moments.playing else 'PAUSED'} {back:.0f} s back"


def _key(screen: Any) -> str | None:
    """A key by its name, or the character itself; None if there is none."""
    try:
        found = screen.get_wch()
    except curses.error:
        return None
    if found == curses.KEY_RESIZE:
        return "resize"
    if isinstance(found, int):
        return _KEYS.get(found, "")
    return "escape" if found == "\x1b" else str(found)


def _styles() -> dict[str, int]:
    found = {
        "bold": curses.A_BOLD,
        "dim": curses.A_DIM,
        "title": curses.A_BOLD,
        "chosen": curses.A_REVERSE,
        "bad": curses.A_BOLD,
    }
    if os.environ.get("NO_COLOR"):
        return found
    with suppress(curses.error):
        curses.start_color()
        curses.use_default_colors()
        if curses.has_colors():
            for number, (style, colour) in enumerate(_COLOURS.items(), 1):
                curses.init_pair(number, colour, -1)
                found[style] = curses.color_pair(number) | found.get(style, 0)
    return found
