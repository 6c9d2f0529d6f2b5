"""A port of this machine that leads to an agent in its pod: `kubectl port-forward`, until it is no longer needed."""

from __future__ import annotations

import re
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.core import UserError, harmless
from zombiescope.plugin.kubectl import PATIENCE, Kubectl
from zombiescope.plugin.pods import Pod

PORT = 9479  # where agents listen in their pod
ENDS = 5.0  # seconds
_FORWARDED = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")


@contextmanager
def forwarded(kubectl: Kubectl, pod: Pod) -> Iterator[str]:
    """The agent's address here; a UserError in kubectl's own words if it cannot be reached."""
    running = kubectl.started("port-forward", "--namespace", pod.namespace, f"pod/{pod.name}", f":{PORT}")
    try:
        assert running.stdout is not None
        heard = select.select([running.stdout], [], [], PATIENCE)[0]
        found = _FORWARDED.match(running.stdout.readline()) if heard else None
        if found is None:
            running.terminate()
            said = running.communicate(timeout=ENDS)[1].strip().splitlines()
            raise UserError(harmless(f"kubectl port-forward: {said[-1] if said else 'no answer'}"))
        yield f"http://127.0.0.1:{found[1]}"
    except subprocess.TimeoutExpired:
        raise UserError("kubectl port-forward: no answer") from None
    finally:
        running.terminate()
        try:
            running.communicate(timeout=ENDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate()
