"""`kubectl zombiescope view`: a copy of the node's recording, shown by the page that is installed on this machine.

The agent has a page of its own, but its program would run in the user's browser, and a pod runs what somebody put into
it. So only data comes from the pod.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from zombiescope.core import UserError
from zombiescope.core.commands import command
from zombiescope.plugin.kubectl import Kubectl, talk
from zombiescope.plugin.pods import Pod
from zombiescope.plugin.recording import copied

PATIENCE = 5.0  # seconds for the page to end by itself


def view(kubectl: Kubectl, pod: Pod, node: str, folder: str) -> int:
    """Until Ctrl-C; the copy is removed then."""
    program = _installed(node)
    with tempfile.TemporaryDirectory(prefix="zombiescope-view-") as place:
        copy = Path(place, node)
        talk(f"copying the recording of {node}")
        talk(f"{copied(kubectl, pod, folder, copy) / 1e6:,.1f} MB")
        with subprocess.Popen([program, "view", "--open", str(copy)], cwd=os.sep, env=os.environ) as running:
            while True:
                try:
                    return running.wait()
                except KeyboardInterrupt:  # at a terminal it got the same
                    with suppress(subprocess.TimeoutExpired):
                        return running.wait(PATIENCE)
                    running.terminate()


def _installed(node: str) -> str:
    """The whole of zombiescope, beside this Python or in an absolute folder of PATH."""
    beside = Path(sys.executable).with_name("zombiescope")
    folders = os.pathsep.join(it for it in os.get_exec_path() if os.path.isabs(it))
    program = str(beside) if os.access(beside, os.X_OK) else shutil.which("zombiescope", path=folders)
    if program is None:
        copy = command("kubectl", "zombiescope", "record", node)
        raise UserError(f"the page needs zombiescope on this machine: pip install zombiescope; its data alone: {copy}")
    return program
