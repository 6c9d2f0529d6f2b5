"""One hypothesis a file: ASKS, answer(timeline)."""
