"""`agent --ask`, `--get`: the running agent is asked by its own socket. One line and an exit code, or any of its pages.

For node-problem-detector (0 fine, 1 not, 2 unknown, 80 characters) and Nagios (0, 1 warning, 2 critical, 3 unknown).
"""

from __future__ import annotations

import http.client
import json
import re
import sys
from typing import Any

from zombiescope.agent.local_socket import connected
from zombiescope.agent.settings import Settings
from zombiescope.core import UserError, harmless
from zombiescope.outputs._exit_codes import BLIND, CLEAR, EXIT_STYLES

PATIENCE = 3.0  # seconds: node-problem-detector gives five by default
LONGEST = 80  # characters: node-problem-detector cuts there
MOST = 32 << 20  # bytes of an answer: the agent's own limit is 24 MB for all of them
WORKED_OUT = 100.0  # seconds for a profile or a range of the page: the agent gives up after 90
GRADES = ("warning", "critical")
NAGIOS_WARNING = 1
REBOOT, NO_REBOOT = 0, 1  # as kured reads its sentinel command


def ask(settings: Settings, style: str) -> int:
    """Says the worst of what goes on."""
    try:
        troubles = _get(settings, "/healthz")["troubles"]
        found = sorted(_get(settings, "/findings"), key=lambda it: GRADES.index(it["severity"]), reverse=True)
        worst = found[0] if found else {}
        line = f"{worst['severity'].upper()} {worst['sign']} {worst['subject']}" if worst else "OK nothing starves"
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        return _told("blind", f"UNKNOWN {_why(settings, error)}", style)
    if not worst and troubles:
        return _told("blind", f"UNKNOWN {troubles[0]}", style)
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    code = _told("found" if worst else "clear", harmless(line, most=LONGEST - len(more) - 2) + more, style)
    return NAGIOS_WARNING if worst and style == "nagios" and worst["severity"] == "warning" else code


def ask_reboot(settings: Settings) -> int:
    """For kured, which reboots a node when its command ends with 0: anything but a clear yes is a no."""
    try:
        said = _get(settings, "/reboot")
        because = [harmless(str(it)) for it in said["because"]] if said["needed"] is True else []
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        print(harmless(f"not known: {_why(settings, error)}", most=200))
        return NO_REBOOT
    print(f"only a reboot would help: {because[0]}" if because else "no reboot is needed")
    return REBOOT if because else NO_REBOOT


def get(settings: Settings, path: str) -> int:
    """Any page, as it comes; what is no page is said on stderr."""
    if not re.fullmatch(r"/[\x21-\x7e]{0,4095}", path):
        raise UserError(f"--get: {path!r} is not a path such as /findings")
    try:
        status, content = _answered(settings, path, WORKED_OUT)
    except (OSError, http.client.HTTPException) as error:
        print(harmless(_why(settings, error), most=200), file=sys.stderr)
        return BLIND
    if status == 404:
        raise UserError(f"--get: {path}: no such page; / lists them")
    healthz = path.partition("?")[0] == "/healthz"  # 503 is among what it says
    if status != 200 and not healthz:
        print(harmless(content.decode("utf-8", "replace").strip() or f"HTTP {status}", most=200), file=sys.stderr)
        return BLIND
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    return CLEAR


def _told(state: str, line: str, style: str) -> int:
    print(harmless(line, most=LONGEST - 1))
    return EXIT_STYLES[style][state]


def _get(settings: Settings, path: str) -> Any:
    status, content = _answered(settings, path, PATIENCE)
    if status not in (200, 503):
        raise ValueError(f"HTTP {status}")
    return json.loads(content)


def _answered(settings: Settings, path: str, patience: float) -> tuple[int, bytes]:
    """By the agent's socket, and only if root or our own user is at its other end: any user may bind a port."""
    connection = http.client.HTTPConnection("localhost", timeout=patience)
    connection.sock = connected(settings.dir, patience)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(MOST)
    finally:
        connection.close()


def _why(settings: Settings, error: Exception) -> str:
    if isinstance(error, PermissionError):
        return f"only root, or its own user, may ask the agent of {settings.dir}"
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return f"no agent runs in {settings.dir}"
    return f"the agent in {settings.dir} does not answer: {error}"
