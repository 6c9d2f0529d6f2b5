"""What tests of a real machine share: in which pass they run, when they may be skipped, loads that end with the test.

`python -m tests` (see __main__.py) runs three passes: tests that can share the machine, on every core at once; those
marked `beside`, some at a time; then others marked `kernel` or `alone`, one after the other. Without `--machine` all
run in one pass, one after the other.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from tests import forked
from tests.warm import Warm, fits

from zombiescope.core import UserError
from zombiescope.lab._scenario import missing
from zombiescope.lab._zombies import memory_folder

PROJECT = Path(__file__).parent.parent
COMMAND = Path(sys.executable).parent / "zombiescope"
# A kernel test that root skips has to begin its reason so; anything else is a hole in the net, and CI fails.
CANNOT = "this machine cannot: "

STARTED = time.monotonic()

# A test-suite that a shell runs in the background is started with Ctrl-C ignored, and so would be all it starts: the
# commands under test would not stop when they are told to.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A property may take as long as it takes: on a machine that does other things, slowness is no failure.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("zombiescope")
    group.addoption(
        "--machine", choices=["shared", "beside", "alone"], help="only the tests that can, or cannot, share a machine"
    )
    group.addoption(
        "--long", action="store_true", help="only the tests that take minutes, which are left out otherwise"
    )
    group.addoption("--processes", type=int, default=1, metavar="MANY", help="in so many processes, a file in each")
    group.addoption("--passes", metavar="FOLDER", help="where a pass leaves its end for the last one to print")


# Files and rooms that take longest, by pass.
LONGEST = {
    "shared": (
        "web",
        "test_package.py",
        "cli/test_proving",
        "fleet",
        "agent",
        "members",
        "kubernetes",
        "cli",
        "recorder",
    ),
    "beside": ("live/test_fix_killed", "agent", "live", "recorder", "naming"),
}
# What a file says if it has a test of that pass: to import all of them takes six seconds, in each process.
SAYS = {"beside": ("beside",), "alone": ("kernel", "alone")}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    wanted = config.getoption("--machine")
    return True if wanted in SAYS and collection_path.suffix == ".py" and not _says(collection_path, wanted) else None


@cache
def _says(path: Path, its_pass: str) -> bool:
    text = path.read_text()
    return any(f"mark.{word}" in text for word in SAYS[its_pass])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted, long = config.getoption("--machine"), config.getoption("--long")
    if hidden := {it.path for it in items if (its := _its_pass(it)) in SAYS and not _says(it.path, its)}:
        raise pytest.UsageError(f"no pass would run these: they do not name their marker themselves: {hidden}")
    runs = [(it.get_closest_marker("long") is not None) == long and wanted in (None, _its_pass(it)) for it in items]
    config.hook.pytest_deselected(items=[it for it, does in zip(items, runs, strict=True) if not does])
    items[:] = [it for it, does in zip(items, runs, strict=True) if does]
    if wanted == "shared":
        sys.addaudithook(_no_cgroups)
    if wanted in LONGEST:
        items.sort(key=lambda it: _its_turn(it, LONGEST[wanted]))
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("kernel"):
                item.add_marker(pytest.mark.skip(reason="makes real cgroups or load: run the tests as root"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    return forked.run(session, session.config.getoption("--processes"))


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: to look for garbage among them takes a tenth of the time."""
    gc.collect()
    gc.freeze()


def _its_turn(item: pytest.Item, longest: tuple[str, ...]) -> int:
    """Files that take long begin first: at the end no process is busy alone."""
    path = str(item.path.relative_to(PROJECT / "tests"))
    return next((turn for turn, begins in enumerate(longest) if path.startswith(begins)), len(longest))


def _its_pass(item: pytest.Item) -> str:
    if item.get_closest_marker("alone"):  # of one test in a file that is otherwise `beside`, too
        return "alone"
    if item.get_closest_marker("beside"):
        return "beside"
    return "alone" if item.get_closest_marker("kernel") else "shared"


def _no_cgroups(event: str, arguments: tuple[object, ...]) -> None:
    """A test that makes a cgroup beside others changes what they count."""
    if event == "os.mkdir" and str(arguments[0]).startswith("/sys/fs/cgroup"):
        raise AssertionError(f"{arguments[0]}: a test that makes cgroups needs the marker kernel")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What was skipped and why, also in the passes before the last, and how those ended."""
    reasons = Counter(_reason(it) for it in terminalreporter.stats.get("skipped", []))
    counts = ", ".join(text for text, _ in terminalreporter.build_summary_stats_line()[0])
    if passes := config.getoption("--passes"):
        machine = config.getoption("--machine")
        now = f"{machine}: {counts} in {time.monotonic() - STARTED:.0f} s"
        Path(passes, f"{machine}.json").write_text(json.dumps({"skipped": reasons, "ended": now}))
        if machine != "alone":
            return
        terminalreporter.write_sep("=", "passes")
        for earlier in sorted(Path(passes).glob("*.json"), key=os.path.getmtime):
            its = json.loads(earlier.read_text())
            terminalreporter.write_line(its["ended"])
            reasons.update(its["skipped"] if earlier.stem != machine else {})
    if reasons:
        terminalreporter.write_sep("=", "skipped")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:4} × {reason}")


def _reason(report: pytest.TestReport) -> str:
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return why.removeprefix("Skipped: ")


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
def zombiescope() -> Iterator[Run]:
    """The installed command, as a user runs it; where that makes no difference, without its start-up."""

    warm = Warm(COMMAND)

    def run(
        *argv: str, expect: int | None = None, env: dict[str, str] | None = None, cwd: object = None, **options: object
    ) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str]
        if not options and fits(env):
            done = warm.run(argv, cwd, env)
        else:
            done = subprocess.run(
                [str(COMMAND), *argv],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                env=env,
                cwd=cwd,
                **options,  # type: ignore[call-overload]
            )
        assert "Traceback" not in done.stderr + done.stdout
        assert expect is None or done.returncode == expect, done.stdout + done.stderr
        return done

    yield run
    warm.close()


ANYTHING = '''"""What a test wants done: any step at all."""

CURES = ("zombie_cgroups",)


class Anything:
    def fits(self, step):
        return True


FORMS = (Anything(),)


def plan(finding, case, timeline):
    return None
'''


@pytest.fixture
def cure(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A remedy of this name that may make any step, for plans that a test writes."""
    folder = tmp_path_factory.mktemp("members")
    (folder / "remedies").mkdir()
    (folder / "remedies" / "cure.py").write_text(ANYTHING)
    monkeypatch.setenv("ZOMBIESCOPE_PATH", str(folder))


@pytest.fixture
def memory_cgroups() -> None:
    try:
        memory_folder()
    except UserError as error:
        pytest.skip(CANNOT + str(error))


@pytest.fixture(scope="session")
def can_boot() -> None:
    """For tests that boot a systemd of their own."""
    if lacking := missing(("root", "systemd", "unshare")):
        pytest.skip(CANNOT + "; ".join(lacking))


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
