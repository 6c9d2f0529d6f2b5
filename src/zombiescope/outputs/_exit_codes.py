"""The exit codes that tell scripts what was found."""

from __future__ import annotations

# Like grep: a script can distinguish "healthy" from "could not look".
CLEAR, FOUND, USAGE, BLIND = 0, 1, 2, 3

# The same three answers in the codes that others expect: node-problem-detector's custom plugins, and Nagios'.
EXIT_STYLES = {
    "ci": {"clear": CLEAR, "found": FOUND, "blind": BLIND},
    "npd": {"clear": 0, "found": 1, "blind": 2},
    "nagios": {"clear": 0, "found": 2, "blind": 3},
}
