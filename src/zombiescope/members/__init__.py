"""Finding members: ours, and those that live outside the package."""
