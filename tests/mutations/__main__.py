"""Change one operator or constant at a time in the rooms that decide about safety, and count how many tests notice.

    python -m tests.mutations --count 60 --seed 1
    python -m tests.mutations --operators --seed 1
    python -m tests.mutations --files treatment/prove.py treatment/apply.py --count 30

How it is sampled: every comparison, boolean and arithmetic operator and every constant of every file in treatment,
audit, gate and remedies is one mistake that could be made (see changes.py); `--count` of them are drawn without
replacement by `random.Random(seed)`, so that every one is as likely and the same seed draws the same ones. It is
noticed if any of the file's tests fails; without a mistake all of them have to pass first.

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
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Lock

from tests.mutations.changes import Change, changes

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "src/zombiescope"
ROOMS = ("treatment", "audit", "gate", "remedies")
TREATMENT, AUDIT, GATE, REMEDIES = (f"tests/{room}" for room in ROOMS)
BOOT = (
    *(f"{AUDIT}/test_{it}.py" for it in ("unit_settings", "unit_files", "boot")),
    *(f"{GATE}/test_{it}.py" for it in ("trees", "hostile", "activation")),
)
RULES = tuple(
    f"{GATE}/test_{it}.py"
    for it in ("edges", "silent", "unread", "rules", "command_line", "lists", "policy", "activation", "hostile")
)
AT_BOOT = tuple(f"{GATE}/test_{it}.py" for it in ("silent", "edges", "rules", "activation"))
# Whose tests are not RULES, or those of the whole room.
TESTS = {
    "treatment/prove.py": (f"{TREATMENT}/test_prove.py",),
    "treatment/recurrence.py": (f"{TREATMENT}/test_recurrence.py", f"{TREATMENT}/test_prove.py"),
    "treatment/load.py": (f"{TREATMENT}/test_load.py", f"{TREATMENT}/test_prove.py"),
    "treatment/proofs.py": (f"{TREATMENT}/test_proofs.py", "tests/cli/test_proving.py"),
    "treatment/apply.py": (f"{TREATMENT}/test_units_again.py", f"{TREATMENT}/test_apply.py"),
    "treatment/kept.py": (f"{TREATMENT}/test_kept.py", f"{TREATMENT}/test_apply.py"),
    "treatment/ledger.py": (f"{TREATMENT}/test_ledger.py", f"{TREATMENT}/test_apply.py", "tests/cli/test_fix.py"),
    "treatment/ledger_events.py": (f"{TREATMENT}/test_ledger_events.py", "tests/attacks/test_ledger.py"),
    "treatment/own_steps.py": (f"{TREATMENT}/test_own_steps.py", "tests/attacks/test_ledger.py"),
    "treatment/essential.py": (f"{TREATMENT}/test_essential.py", f"{AUDIT}/test_survey.py"),
    "treatment/reach.py": (f"{TREATMENT}/test_reach.py",),
    "treatment/ready.py": (f"{TREATMENT}/test_apply.py", f"{TREATMENT}/test_units_again.py"),
    "treatment/purge.py": tuple(f"{TREATMENT}/test_purge{it}.py" for it in ("_decisions", "_refusals", "", "_rungs")),
    "treatment/purge_command.py": tuple(
        f"{TREATMENT}/test_purge_{it}.py" for it in ("command", "decisions", "refusals", "rungs")
    ),
    "treatment/limited_write.py": (f"{TREATMENT}/test_purge_decisions.py", f"{TREATMENT}/test_purge_rungs.py"),
    "treatment/napi_command.py": (f"{TREATMENT}/test_napi_command.py", f"{REMEDIES}/test_raise_napi_priority.py"),
    "audit/activation.py": BOOT,
    "audit/boot.py": BOOT,
    "audit/calendar_events.py": (f"{AUDIT}/test_calendar_events.py",),
    "audit/containers.py": (f"{AUDIT}/test_containers.py",),
    "audit/essential.py": (f"{GATE}/test_essential.py",),
    "audit/facts.py": (f"{AUDIT}/test_facts.py", f"{GATE}/test_rules.py", f"{GATE}/test_command_line.py"),
    "audit/log_tail.py": (f"{AUDIT}/test_log_tail.py",),
    "audit/packages.py": (f"{AUDIT}/test_packages.py", f"{GATE}/test_essential.py"),
    "audit/pe_sections.py": (f"{GATE}/test_command_line.py",),
    "audit/pod_logs.py": (f"{AUDIT}/test_containers.py",),
    "audit/presets.py": BOOT,
    "audit/ray_sessions.py": (f"{AUDIT}/test_ray_sessions.py", "tests/probes/test_ray_logs.py"),
    "audit/stores.py": (f"{AUDIT}/test_containers.py",),
    "audit/survey.py": (
        f"{AUDIT}/test_survey.py",
        f"{GATE}/test_policy.py",
        f"{GATE}/test_rules.py",
        "tests/cli/test_audit.py",
    ),
    "audit/systemd.py": tuple(f"{AUDIT}/test_{it}.py" for it in ("systemd", "systemd_words", "survey")),
    "audit/sysv.py": BOOT,
    "audit/unit_file.py": BOOT,
    "audit/unit_files.py": BOOT,
    "audit/unit_syntax.py": (*BOOT, f"{GATE}/test_hostile_files.py"),
    "audit/use.py": (f"{AUDIT}/test_use.py",),
    "audit/loops.py": (f"{AUDIT}/test_loops.py",),
    "audit/running.py": (f"{AUDIT}/test_running.py",),
    "gate/_lists.py": tuple(f"{GATE}/test_{it}.py" for it in ("lists", "policy", "edges")),
    "gate/_unpacked.py": (f"{GATE}/test_unpacked.py", f"{GATE}/test_silent.py", f"{GATE}/test_hostile.py"),
    "gate/agent_without_use.py": AT_BOOT,
    "gate/endless_restart.py": AT_BOOT,
    "gate/unknown_unit.py": (*AT_BOOT, f"{GATE}/test_policy.py"),
}
# Only real cgroups, network cards or a real systemd show what these do: their tests make some, one after the other.
REAL = (
    *("treatment/purge.py", "treatment/purge_command.py", "treatment/limited_write.py", "treatment/napi_command.py"),
    "audit/systemd.py",
)
ONE = Lock()
PATIENCE = 300.0  # seconds: a mistake may make a loop endless, which is noticed too


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=(__doc__ or "").splitlines()[0])
    known = [f"{room}/{path.name}" for room in ROOMS for path in sorted((PACKAGE / room).glob("*.py"))]
    parser.add_argument("--files", nargs="+", choices=known, default=known, metavar="FILE")
    parser.add_argument("--count", type=int, default=60, help="mistakes to make [60]")
    parser.add_argument("--seed", type=int, default=1, help="which of them [1]")
    parser.add_argument("--jobs", type=int, default=2, help="at a time [2]")
    parser.add_argument("--operators", action="store_true", help="no constants: limits, pauses, lengths of texts")
    parser.add_argument("--light", action="store_true", help="leave out tests that make real cgroups or load")
    parser.add_argument("--least", type=float, default=0.9, help="share that must be noticed [0.9]")
    args = parser.parse_args(argv)
    every = [
        (file, it)
        for file in args.files
        for it in changes((PACKAGE / file).read_text())
        if not (args.operators and it.constant)
    ]
    chosen = random.Random(args.seed).sample(every, min(args.count, len(every)))
    for real in (False, True):
        tests = {it for file, _ in chosen if (file in REAL and not args.light) == real for it in _tests(file)}
        if tests and (failed := _failed(PACKAGE.parent, tests, real)):
            raise SystemExit(f"without any mistake fails: {failed}")
    with ThreadPoolExecutor(args.jobs) as threads:
        noticed = list(
            threads.map(lambda it: _noticed(*it, light=args.light), sorted(chosen, key=lambda it: (it[0], it[1].line)))
        )
    share = sum(noticed) / max(len(noticed), 1)
    print(f"{sum(noticed)} of {len(noticed)} mistakes noticed ({share:.0%}); there are {len(every):,} to choose from")
    return 0 if share >= args.least else 1


def _noticed(file: str, change: Change, *, light: bool) -> bool:
    """Whether the tests of a file fail with the mistake in it."""
    began = time.monotonic()
    real = file in REAL and not light
    with tempfile.TemporaryDirectory(prefix="zombiescope-mutation-") as folder, ONE if real else nullcontext():
        package = Path(folder) / "zombiescope"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        (package / file).write_text(change.text)
        failed = _failed(Path(folder), _tests(file), real)
    word, by = ("noticed ", f" by {failed}") if failed else ("SURVIVED", "")
    print(f"{word} {file}:{change.line}: {change.says} ({time.monotonic() - began:.0f} s){by}", flush=True)
    return bool(failed)


def _tests(file: str) -> tuple[str, ...]:
    room = file.partition("/")[0]
    return TESTS.get(file, RULES if room == "gate" else (f"tests/{room}",))


def _failed(path: Path, tests: Iterable[str], real: bool) -> str:
    """The first of these tests that fails with the package in this folder; "" if all pass."""
    environ = os.environ | {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory(prefix="zombiescope-mutation-") as folder:
        options = ("-q", "-x", "-p", "no:cacheprovider", f"--basetemp={folder}/tests")
        command = [sys.executable, "-m", "pytest", *options, *(() if real else ("-m", "not kernel")), *sorted(tests)]
        try:
            done = subprocess.run(
                command, cwd=PROJECT, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return f"a test that does not end within {PATIENCE:.0f} s"
    if not done.returncode:
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0] if lines else (done.stdout + done.stderr)[-500:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
