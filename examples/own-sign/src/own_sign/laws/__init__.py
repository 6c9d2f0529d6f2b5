"""Our laws, one file each."""
