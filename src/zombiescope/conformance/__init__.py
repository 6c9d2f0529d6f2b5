"""What every room promises, as checks: one file a room. Our own tests and `zombiescope check` run the same."""
