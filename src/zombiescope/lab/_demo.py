"""The incident in a terminal, in about two minutes: it really happens, is diagnosed, fixed, verified and cleaned up.

    python -m zombiescope.lab._demo [--page]

Every command shown is really run, and its output is shown unchanged. Only the log lines of the network driver are
injected, since no card here can be starved on demand; each line says so, and they stop when the dying cgroups are
gone. With --page the recording stays open in the browser until Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

from zombiescope.core import UserError, harmless, lasting
from zombiescope.lab._loads import load as job
from zombiescope.lab._scenario import missing, name_for
from zombiescope.members.rooms import load
from zombiescope.places.own_folders import LAB_ENVIRONMENT
from zombiescope.places.own_python import FOLDER, environment, own_python

INCIDENT = load("lab", "pinterest")
COMMAND = own_python("zombiescope")
# What the last page needs to find the viewer's browser.
SCREEN = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "BROWSER")
HEALTHY = 5.0  # seconds diagnosed before it breaks
AVERAGED = 5.0  # seconds averaged, as dashboards do
RECORDED = 25.0  # seconds of the incident: the card resets twice
PROVED = "1m"  # the card resets every 15 s
JOB = "0.4"  # cores
WIDE = 100  # columns
RULE = "─" * WIDE


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", action="store_true", help="open the recording in the browser at the end")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return told(page=args.page)
    except UserError as error:
        print(f"demo: {harmless(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; everything it made has been removed", file=sys.stderr)
        return 130


def told(*, page: bool) -> int:
    if lacking := missing(INCIDENT.NEEDS):
        raise UserError("the demo makes the incident happen for real, and needs " + "; ".join(lacking))
    began = time.monotonic()
    # On a disk, as logs are: pages in tmpfs cannot be dropped, so the dying cgroups could not be released.
    with tempfile.TemporaryDirectory(prefix=f"{name_for('demo')}-", dir="/var/tmp") as folder:
        recording, ours = f"{folder}/recording", {"ZOMBIESCOPE_LEDGER": f"{folder}/ledger"}
        say("1  A healthy node", "Nothing has happened yet.")
        shown("diagnose", "--seconds", f"{HEALTHY:g}", "--set", "kmsg.PAST=0", lines=4)
        say(
            "2  It breaks",
            "A real systemd, in its own namespaces, runs an agent that nobody uses. It crash-loops, and each crash "
            f"leaves a dying cgroup. {INCIDENT.DEAD:,} are there already, as after some days. A process reads the root "
            "cgroup's statistics, as kubelet does; each read walks all of them on one core.",
        )
        # A job that goes on after the fix: on a node that has nothing left to do nothing would be proved.
        with INCIDENT.incident(folder=folder) as fault, job("job", JOB):
            print(textwrap.fill(f"now: {fault.says}", WIDE, initial_indent="   ", subsequent_indent="   "))
            say("3  What dashboards show", dashboards())
            say("4  Record it, then diagnose the recording", "")
            shown("record", recording, "--for", f"{RECORDED:g}s", "--hz", "99", "--set", "kmsg.PAST=0", lines=0)
            shown("diagnose", recording)
            say("5  Fix it, and verify the fix", "Each step is logged first, and can be undone.")
            code = shown("fix", "--apply", "--prove", PROVED, "--set", "kmsg.PAST=0", more=ours)
        say("6  Clean up", f"Everything it made is removed. The demo took {lasting(time.monotonic() - began)}.")
        if page:
            say("7  Time travel", "The recording, in your browser. Press Ctrl-C to end.")
            shown("view", recording, more={name: os.environ[name] for name in SCREEN if name in os.environ})
    return code


def say(title: str, words: str) -> None:
    print(f"\n{RULE}\n{title}\n{RULE}", flush=True)
    if words:
        print(textwrap.fill(words, WIDE, initial_indent="   ", subsequent_indent="   "), flush=True)


def shown(*argv: str, lines: int | None = None, more: dict[str, str] | None = None) -> int:
    """Run the command as a user would; show all of its output, or the first lines."""
    print(f"\n$ zombiescope {shlex.join(argv)}", flush=True)
    whole, environ = [*COMMAND, *argv], environment() | {LAB_ENVIRONMENT: "1"} | (more or {})
    if lines is None:
        return subprocess.run(whole, env=environ, cwd=FOLDER, check=False).returncode
    done = subprocess.run(whole, env=environ, cwd=FOLDER, check=False, capture_output=True, text=True)
    told = done.stdout.splitlines()
    print("\n".join(told[:lines]) + ("\n…" if lines and len(told) > lines else ""), flush=True)
    return done.returncode


def dashboards() -> str:
    """Averages as dashboards draw them: over all cores here, and for a node of 96 cores."""
    before, began = _busy(), time.monotonic()
    time.sleep(AVERAGED)
    cores = (_busy() - before) / (time.monotonic() - began)
    count = os.cpu_count() or 1
    with open("/proc/meminfo") as file:
        kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in file}
    free = kilobytes["MemAvailable"] / kilobytes["MemTotal"]
    return (
        f"CPU {cores / count:.0%} busy on average over {count} cores (on a 96-core node: {cores / 96:.0%}), "
        f"memory {free:.0%} free, no failed unit (the agent always shows as starting). Everything looks healthy."
    )


def _busy() -> float:
    with open("/proc/stat") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:]]
    return (sum(ticks[:8]) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
