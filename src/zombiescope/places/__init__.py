"""Where things are: our own Python and folders, a path in another root. Imports nothing of ours."""
