"""One cause and one effect a file: WITHIN, grounds(cause, effect, timeline)."""
