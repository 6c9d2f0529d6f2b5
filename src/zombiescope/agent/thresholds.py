"""Whether thresholds can be set as asked: tried in a process of its own, since the agent does without the members."""

from __future__ import annotations

import subprocess
import sys

from zombiescope.core.errors import UserError
from zombiescope.outputs._exit_codes import USAGE
from zombiescope.places.own_python import FOLDER, environment, own_python

PATIENCE = 60.0  # seconds, on a node that has no CPU to spare


def why_not(chosen: tuple[str, ...]) -> str:
    """What is wrong with them; empty if nothing is."""
    if not chosen:
        return ""
    command = own_python("zombiescope.agent.thresholds", *chosen)
    try:
        done = subprocess.run(
            command, cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return ""  # the recorder and the examiner say it themselves
    return done.stderr.strip() if done.returncode == USAGE else ""


if __name__ == "__main__":
    from zombiescope.diagnosis.settings import override

    try:
        override(sys.argv[1:])
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(USAGE)
