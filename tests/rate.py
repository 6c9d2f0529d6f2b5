"""How often a test fails: `python -m tests --rate NAME TIMES [--beside PROCESSES]`.

NAME is what `pytest -k` takes, or a file or test by its path. `--beside`: so many processes want a whole core each
meanwhile. What is marked `long` runs, too.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description="how often a test fails")
    parser.add_argument("--rate", nargs=2, metavar=("NAME", "TIMES"), required=True)
    parser.add_argument("--beside", type=int, default=0, metavar="PROCESSES", help="that want a whole core each")
    asked = parser.parse_args(argv)
    name, times = asked.rate
    if not times.isdigit() or not int(times):
        parser.error(f"TIMES is how often it is run, and not {times}")
    return _rate(name, int(times), asked.beside)


def _rate(name: str, times: int, beside: int) -> int:
    which = [name] if "/" in name else ["-k", name]
    words = [sys.executable, "-m", "pytest", "-q", "-rfE", "--durations=0", *which]
    failed: Counter[str] = Counter()
    with ExitStack() as running:
        for _ in range(beside):
            running.enter_context(busy())
        for turn in range(times):
            began = time.monotonic()
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
                print(done.stdout + done.stderr, file=sys.stderr)
                return done.returncode
            these = _FAILED.findall(done.stdout)
            failed.update(these)
            print(f"{turn + 1}/{times}: {len(these)} failed, {time.monotonic() - began:.1f} s", flush=True)
            if these:
                print(done.stdout[-8000:], file=sys.stderr, flush=True)
    for test, many in failed.most_common():
        print(f"{many} of {times}: {test}")
    print(f"{sum(failed.values())} failures in {times} runs beside {beside} busy processes")
    return int(bool(failed))


@contextmanager
def busy() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
