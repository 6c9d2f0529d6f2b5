"""What the kernel must be asked in its own tongue; used by probes."""
