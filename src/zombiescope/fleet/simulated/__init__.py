"""A fleet that never was, in the formats of a real one, with its truth beside it: for tests and first tries."""
