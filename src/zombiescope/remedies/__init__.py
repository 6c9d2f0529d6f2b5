"""One fix a file: CURES, plan(finding, case, timeline)."""
