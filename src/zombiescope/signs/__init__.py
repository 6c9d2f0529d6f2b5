"""One symptom a file: NEEDS, find(timeline)."""
