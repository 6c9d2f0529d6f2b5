"""Children that fail: started again after growing pauses, also when there is nothing to start them with."""

from __future__ import annotations

import selectors
import sys

from zombiescope.agent.children import FIRST_PAUSE, LONGEST_PAUSE, STEADY, Child


def run(child: Child, selector: selectors.BaseSelector, now: float) -> None:
    """Until it has ended, and that was noticed."""
    while child.up:
        for key, mask in selector.select(0.1):
            key.data(mask)
        child.tick(now)


def test_pauses_grow_and_a_steady_run_resets_them() -> None:
    selector, lines = selectors.DefaultSelector(), list[tuple[str, bytes]]()
    code = "import sys; print('one'); print('two', file=sys.stderr); sys.exit(7)"
    child = Child(selector, "x", lambda: (sys.executable, "-c", code), lambda *line: lines.append(line[:2]))
    now, pauses = 0.0, []
    for _ in range(9):
        child.tick(now)
        run(child, selector, now)
        assert child.ended == "exit code 7"
        pauses.append(child.tick(now))
        now += pauses[-1]
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE] and pauses[-1] == LONGEST_PAUSE
    assert child.starts == 9 and sorted(lines[:2]) == [("stderr", b"two"), ("stdout", b"one")]
    child.tick(now)
    run(child, selector, now + STEADY)
    assert child.tick(now + STEADY) == FIRST_PAUSE
    assert not selector.get_map()


def test_what_cannot_be_started_is_tried_again() -> None:
    selector = selectors.DefaultSelector()
    child = Child(selector, "x", lambda: ("/nowhere/at/all",), lambda *_: None)
    assert child.tick(0.0) == FIRST_PAUSE and not child.up
    assert child.ended == "cannot be started: No such file or directory"
    assert child.tick(FIRST_PAUSE) == 2 * FIRST_PAUSE and child.starts == 0


def test_one_that_ignores_sigterm_is_killed() -> None:
    selector = selectors.DefaultSelector()
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    heard: list[bytes] = []
    child = Child(selector, "x", lambda: (sys.executable, "-c", code), lambda _, line, __: heard.append(line))
    child.start(0.0)
    while not heard:
        for key, mask in selector.select(0.1):
            key.data(mask)
    child.stop(0.4)
    assert child.ended == "killed by signal 9" and not child.up and not selector.get_map()


def test_a_line_without_an_end_is_no_answer() -> None:
    selector = selectors.DefaultSelector()
    code = "import sys\nwhile True: sys.stdout.write('x' * 1_000_000)"
    child = Child(selector, "x", lambda: (sys.executable, "-c", code), lambda *_: None)
    child.start(0.0)
    run(child, selector, 0.0)
    assert child.ended == "killed by signal 9"
