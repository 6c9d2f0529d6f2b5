"""One cure a file: CURES, plan(finding, case)."""
