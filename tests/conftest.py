"""What tests of a real machine share: when they may be skipped, and loads that end with the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
COMMAND = Path(sys.executable).parent / "zombiescope"
# A kernel test that root skips has to begin its reason so; anything else is a hole in the net, and CI fails.
CANNOT = "this machine cannot: "

# A test-suite that a shell runs in the background is started with Ctrl-C ignored, and so would be all it starts: the
# commands under test would not stop when they are told to.
signal.signal(signal.SIGINT, signal.default_int_handler)

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("kernel"):
                item.add_marker(pytest.mark.skip(reason="makes real cgroups or load: run the tests as root"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or os.geteuid() != 0 or not os.environ.get("CI"):
        return
    skipped = [
        it for it in reporter.stats.get("skipped", []) if "kernel" in it.keywords and CANNOT not in str(it.longrepr)
    ]
    if skipped:
        reporter.write_line(f"kernel tests skipped where they could have run: {[it.nodeid for it in skipped]}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def zombiescope() -> Run:
    """The installed command, as a user runs it."""

    def run(*argv: str, expect: int | None = None, **options: object) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [str(COMMAND), *argv],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **options,  # type: ignore[call-overload]
        )
        assert "Traceback" not in done.stderr + done.stdout
        assert expect is None or done.returncode == expect, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def pinned() -> Iterator[Callable[[int, str], None]]:
    """Start a Python program on one core; it ends with the test, whatever happens."""
    with ExitStack() as running:

        def start(cpu: int, program: str) -> None:
            running.enter_context(_program(f"import os; os.sched_setaffinity(0, {{{cpu}}})\n{program}"))

        yield start


@contextmanager
def _program(text: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", text])
    try:
        yield
    finally:
        process.kill()
        process.wait()
