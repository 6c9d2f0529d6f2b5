"""Children that fail: started again after growing pauses, also when there is nothing to start them with."""

from __future__ import annotations

import selectors
import sys
import time

from zombiescope.agent.children import FIRST_PAUSE, LOADED, LONGEST_PAUSE, STEADY, Child


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
        assert child.ended == "exit code 7: two" and child.failing == child.ended
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
    assert child.ended == child.failing == "cannot be started: No such file or directory"
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


def test_one_that_fails_is_failing_until_it_has_run_for_a_while() -> None:
    """Also in the moment in which it is started again; not when it was asked to end."""
    selector = selectors.DefaultSelector()
    code = "import sys, time; time.sleep(float(sys.argv[1])); sys.exit('no numpy')"
    seconds = ["0"]
    child = Child(selector, "x", lambda: (sys.executable, "-c", code, seconds[0]), lambda *_: None)
    now = time.monotonic()
    child.start(now)
    assert child.failing == ""
    run(child, selector, now)
    assert str(child.failing) == "exit code 1: no numpy"
    seconds[0] = "60"
    child.start(time.monotonic())
    assert child.up and child.failing, "nobody knows yet whether it will end in the same way"
    child._started -= LOADED + 1
    assert not child.failing
    child.restart(now)
    assert not child.failing
    child.stop(1.0)
