"""Our signs, one file each."""
