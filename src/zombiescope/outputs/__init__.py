"""One format a file: write(case, timeline, out)."""
