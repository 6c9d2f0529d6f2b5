"""Real faults on this machine: one scenario a file, each cleaned up."""
