"""`agent --ask`: one line and an exit code from the running agent, for checks that must be quick.

For node-problem-detector (0 fine, 1 not, 2 unknown, 80 characters) and Nagios (0, 1 warning, 2 critical, 3 unknown).
"""

from __future__ import annotations

import http.client
import json
from typing import Any

from zombiescope.agent.settings import Settings, address, token
from zombiescope.agent.tls import for_asking
from zombiescope.core import UserError, harmless
from zombiescope.outputs._exit_codes import EXIT_STYLES

PATIENCE = 3.0  # seconds: node-problem-detector gives five by default
LONGEST = 80  # characters: node-problem-detector cuts there
MOST = 4 << 20  # bytes of an answer
GRADES = ("warning", "critical")
NAGIOS_WARNING = 1
REBOOT, NO_REBOOT = 0, 1  # as kured reads its sentinel command


def ask(settings: Settings, style: str) -> int:
    """Says the worst of what goes on."""
    if not settings.listen:
        raise UserError("--ask: the agent has no port to be asked at (listen is empty)")
    try:
        troubles = _get(settings, "/healthz")["troubles"]
        found = sorted(_get(settings, "/findings"), key=lambda it: GRADES.index(it["severity"]), reverse=True)
        worst = found[0] if found else {}
        line = f"{worst['severity'].upper()} {worst['sign']} {worst['subject']}" if worst else "OK nothing starves"
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        return _told("blind", f"UNKNOWN the agent at {settings.listen} does not answer: {error}", style)
    if not worst and troubles:
        return _told("blind", f"UNKNOWN {troubles[0]}", style)
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    code = _told("found" if worst else "clear", harmless(line, most=LONGEST - len(more) - 2) + more, style)
    return NAGIOS_WARNING if worst and style == "nagios" and worst["severity"] == "warning" else code


def ask_reboot(settings: Settings) -> int:
    """For kured, which reboots a node when its command ends with 0: anything but a clear yes is a no."""
    if not settings.listen:
        raise UserError("--ask-reboot: the agent has no port to be asked at (listen is empty)")
    try:
        said = _get(settings, "/reboot")
        because = [harmless(str(it)) for it in said["because"]] if said["needed"] is True else []
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        print(harmless(f"not known: the agent at {settings.listen} does not answer: {error}", most=200))
        return NO_REBOOT
    print(f"only a reboot would help: {because[0]}" if because else "no reboot is needed")
    return REBOOT if because else NO_REBOOT


def _told(state: str, line: str, style: str) -> int:
    print(harmless(line, most=LONGEST - 1))
    return EXIT_STYLES[style][state]


def _get(settings: Settings, path: str) -> Any:
    host, port = address(settings.listen, "listen")
    headers = {"Host": f"localhost:{port}"}
    if settings.token_file:
        headers["Authorization"] = f"Bearer {token(settings.token_file, 'token-file')}"
    reached = "127.0.0.1" if host == "0.0.0.0" else host
    if settings.tls_cert_file:
        context = for_asking(settings)
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            reached, port, timeout=PATIENCE, context=context
        )
    else:
        connection = http.client.HTTPConnection(reached, port, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        if answer.status not in (200, 503):
            raise ValueError(f"HTTP {answer.status}")
        return json.loads(answer.read(MOST))
    finally:
        connection.close()
