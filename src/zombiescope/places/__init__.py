"""Where things are: our own Python and folders, a path in another root, what is in a packed file. Imports nothing of ours."""
