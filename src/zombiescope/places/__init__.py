"""Where things are: our own Python and folders, a path in another root, a packed file. Imports nothing of ours."""
