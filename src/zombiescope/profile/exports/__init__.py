"""One format a file: SUFFIX, BINARY, COMPARES, write(picture, out)."""
