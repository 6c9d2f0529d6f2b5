"""The commands of the agent's two children, as the settings want them."""

from __future__ import annotations

import os

from zombiescope.agent.budget import LEAST
from zombiescope.agent.settings import Settings
from zombiescope.places.own_python import own_python

# Seconds of a head: those that are finished are settled before a look, and the look parses the one that is being
# written. If no look comes, the recorder settles them itself.
SEGMENT, SETTLE_LATE = 90.0, 400.0
RECORDED = ("host", "hours", "max_bytes", "hz", "bpf", "budget", "set")  # settings that are options of the recorder


def recorder(it: Settings) -> tuple[str, ...]:
    options = ["--hours", f"{it.hours:g}", "--max-bytes", str(it.max_bytes), "--hz", str(it.hz)]
    options += ["--segment", f"{SEGMENT:g}", "--settle-late", f"{SETTLE_LATE:g}"]
    options += ["--alarms", "--budget", f"{(1 - LEAST) * it.budget:.4%}"]  # the rest is for looks
    chosen = [word for one in it.set for word in ("--set", one)] + (["--host", it.host] if it.host else [])
    chosen += ["--no-bpf"] if it.bpf == "off" else []
    return own_python("zombiescope.agent.child", str(os.getpid()), "record", it.dir, *options, *chosen)


def examiner(it: Settings) -> tuple[str, ...]:
    return own_python("zombiescope.agent.examiner", it.dir, str(os.getpid()), *it.set)
