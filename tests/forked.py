"""Tests in several processes that are all made from one: it imports and collects, once for all of them.

To import and collect nine thousand tests takes nine seconds of CPU. A process takes the next file as soon as it has
done one, so that what a module builds for its tests is built once. Its reports go to the first one, which prints them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

_NUMBER = 4  # bytes of a file's number
_PRINTS = ("terminalreporter", "terminalprogress")  # plugins that print what tests do: only the first process does


def run(session: pytest.Session, processes: int) -> bool | None:
    """Every test; None where one process is enough."""
    files = [list(its) for _path, its in groupby(session.items, key=lambda it: it.path)]
    if processes < 2 or len(files) < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    assert threading.active_count() == 1, f"a copy of this process would lack its threads: {threading.enumerate()}"
    temporary: Any = session.config._tmp_path_factory  # type: ignore[attr-defined]
    folder = temporary.getbasetemp()  # made once, here: making it removes what was there
    numbers = _numbers(len(files))
    sys.stdout.flush()
    children: dict[Connection, int] = {}
    try:
        for process in range(min(processes, len(files))):
            (folder / f"process-{process}").mkdir(mode=0o700)  # for its temporary files
            here, there = Pipe(duplex=False)
            if (child := os.fork()) == 0:
                here.close()
                temporary._basetemp = folder / f"process-{process}"
                _work(session, _next(files, numbers), there)
            there.close()
            children[here] = child
        _print_what_comes(session, list(children))
    finally:
        for here, child in children.items():
            here.close()
            os.kill(child, signal.SIGINT)  # one that has ended does not mind; one at work cleans up first
        for child in children.values():
            os.waitpid(child, 0)
        os.close(numbers)
    return True


def _numbers(files: int) -> int:
    """A pipe with the number of each file: the process that reads one runs that file."""
    numbers, fill = os.pipe()
    for number in range(files):
        os.write(fill, number.to_bytes(_NUMBER, "little"))
    os.close(fill)
    return numbers


def _next(files: Sequence[list[pytest.Item]], numbers: int) -> Iterator[list[pytest.Item]]:
    while number := os.read(numbers, _NUMBER):
        yield files[int.from_bytes(number, "little")]


def _print_what_comes(session: pytest.Session, connections: list[Connection]) -> None:
    hook = session.config.hook
    while connections:
        for ready in wait(connections):
            assert isinstance(ready, Connection)
            try:
                kind, content = ready.recv()
            except EOFError:
                raise RuntimeError("a process with tests died: what it was at, nobody knows") from None
            if kind == "report":
                report = hook.pytest_report_from_serializable(config=session.config, data=content)
                hook.pytest_runtest_logreport(report=report)
            elif kind == "finished":
                hook.pytest_runtest_logfinish(**content)
            elif content:
                raise RuntimeError(content)
            else:
                connections.remove(ready)


def _work(session: pytest.Session, files: Iterator[list[pytest.Item]], there: Connection) -> None:
    """Never returns: the rest is the first process's."""
    said = ""
    try:
        _be_apart(session.config)
        session.config.pluginmanager.register(_Sends(session.config, there))
        try:
            for items in files:
                # After its last test what the file has built is taken down, and what belongs to the session stays.
                for item, following in zip(items, [*items[1:], session], strict=True):
                    session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C comes from the terminal and from the first process
            session._setupstate.teardown_exact(None)
    except BaseException:  # Ctrl-C, too
        said = traceback.format_exc()
    finally:
        try:
            there.send(("ended", said))
        finally:
            os._exit(0)


def _be_apart(config: pytest.Config) -> None:
    """It prints nothing, and captures itself what its tests print."""
    for name in _PRINTS:
        if config.pluginmanager.has_plugin(name):
            config.pluginmanager.unregister(name=name)
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()


class _Sends:
    """A plugin that sends all reports."""

    def __init__(self, config: pytest.Config, there: Connection) -> None:
        self._config, self._there = config, there

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._there.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._there.send(("finished", {"nodeid": nodeid, "location": location}))
