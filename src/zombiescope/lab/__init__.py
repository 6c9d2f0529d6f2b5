"""Faults that really happen, one scenario a file, each cleaned up."""
