"""Where zombiescope keeps what it writes on a node, and how a user moves it."""

from __future__ import annotations

LEDGER_FOLDER = "/var/lib/zombiescope"  # what `fix` did, and how it was before
LEDGER_ENVIRONMENT = "ZOMBIESCOPE_LEDGER"  # another folder for it
LEDGER_FILE = "fixes.jsonl"
LAB_ENVIRONMENT = "ZOMBIESCOPE_LAB"  # set by the lab for its own runs: only they see the log lines that it injects
