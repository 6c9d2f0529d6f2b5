"""Change one operator or constant at a time in files that decide about safety, and count how many tests notice.

    python -m tests.mutations --files treatment/prove.py treatment/apply.py --count 30 --seed 1

How it is sampled: every comparison, boolean and arithmetic operator and every constant of these files is one mistake
that could be made (see changes.py); `--count` of them are drawn without replacement by `random.Random(seed)`, so that
every one is as likely and the same seed draws the same ones. It is noticed if any of the file's fast tests fails.

The source is never touched: each mistake is made in a copy of the package, which the tests import instead.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutations.changes import Change, changes

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "src/zombiescope"
TREATMENT, AUDIT, GATE, REMEDIES = "tests/treatment", "tests/audit", "tests/gate", "tests/remedies"
# The fast tests of each file: no live faults.
TESTS = {
    "treatment/prove.py": (f"{TREATMENT}/test_prove.py",),
    "treatment/recurrence.py": (f"{TREATMENT}/test_recurrence.py", f"{TREATMENT}/test_prove.py"),
    "treatment/load.py": (f"{TREATMENT}/test_load.py", f"{TREATMENT}/test_prove.py"),
    "treatment/proofs.py": ("tests/cli/test_proving.py",),
    "treatment/apply.py": (f"{TREATMENT}/test_units_again.py", f"{TREATMENT}/test_apply.py"),
    "treatment/kept.py": (f"{TREATMENT}/test_kept.py", f"{TREATMENT}/test_apply.py"),
    "treatment/essential.py": (f"{TREATMENT}/test_essential.py",),
    "treatment/reach.py": (f"{TREATMENT}/test_reach.py",),
    "treatment/ready.py": (f"{TREATMENT}/test_apply.py", f"{TREATMENT}/test_units_again.py"),
    "audit/activation.py": (f"{GATE}/test_activation.py", f"{GATE}/test_trees.py"),
    "audit/boot.py": (f"{GATE}/test_trees.py",),
    "audit/essential.py": (f"{GATE}/test_essential.py",),
    "audit/presets.py": (f"{GATE}/test_trees.py",),
    "audit/unit_syntax.py": (f"{AUDIT}/test_unit_files.py", f"{GATE}/test_hostile_files.py"),
    "gate/_lists.py": (f"{GATE}/test_lists.py", f"{GATE}/test_policy.py"),
    "gate/agent_without_use.py": (f"{GATE}/test_rules.py", f"{GATE}/test_activation.py"),
    "gate/endless_restart.py": (f"{GATE}/test_rules.py", f"{GATE}/test_activation.py"),
    "gate/unknown_unit.py": (f"{GATE}/test_rules.py", f"{GATE}/test_policy.py", f"{GATE}/test_activation.py"),
    "remedies/move_irq_off_core.py": (f"{REMEDIES}/test_move_irq_off_core.py",),
    "remedies/stop_leaking_unit.py": (f"{REMEDIES}/test_stop_leaking_unit.py",),
    "audit/use.py": (f"{AUDIT}/test_use.py",),
    "audit/loops.py": (f"{AUDIT}/test_loops.py",),
    "audit/running.py": (f"{AUDIT}/test_running.py",),
}
PATIENCE = 300.0  # seconds: a mistake may make a loop endless, which is noticed too


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", nargs="+", choices=sorted(TESTS), default=sorted(TESTS), metavar="FILE")
    parser.add_argument("--count", type=int, default=30, help="mistakes to make [30]")
    parser.add_argument("--seed", type=int, default=1, help="which of them [1]")
    parser.add_argument("--jobs", type=int, default=2, help="at a time [2]")
    parser.add_argument("--least", type=float, default=0.9, help="share that must be noticed [0.9]")
    args = parser.parse_args(argv)
    every = [(file, it) for file in args.files for it in changes((PACKAGE / file).read_text())]
    chosen = random.Random(args.seed).sample(every, min(args.count, len(every)))
    with ThreadPoolExecutor(args.jobs) as threads:
        noticed = list(threads.map(lambda it: _noticed(*it), sorted(chosen, key=lambda it: (it[0], it[1].line))))
    share = sum(noticed) / max(len(noticed), 1)
    print(f"{sum(noticed)} of {len(noticed)} mistakes noticed ({share:.0%}); there are {len(every):,} to choose from")
    return 0 if share >= args.least else 1


def _noticed(file: str, change: Change) -> bool:
    """Whether the tests of a file fail with the mistake in it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zombiescope-mutation-") as folder:
        package = Path(folder) / "zombiescope"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        (package / file).write_text(change.text)
        environ = os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        options = ("-q", "-x", "-p", "no:cacheprovider", "-m", "not kernel", f"--basetemp={folder}/tests")
        command = [sys.executable, "-m", "pytest", *options, *TESTS[file]]
        try:
            done = subprocess.run(
                command, cwd=PROJECT, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            noticed = done.returncode == 1
            if done.returncode not in (0, 1):
                raise RuntimeError(f"the tests of {file} do not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        except subprocess.TimeoutExpired:
            noticed = True
    word = "noticed " if noticed else "SURVIVED"
    print(f"{word} {file}:{change.line}: {change.says} ({time.monotonic() - began:.0f} s)", flush=True)
    return noticed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
