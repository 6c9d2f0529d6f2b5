"""The engine: it knows rooms, never members."""
