"""The long-running node daemon."""
