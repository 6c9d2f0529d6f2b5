"""What comes from others, kept at a distance: opening files that they chose. Imports nothing of ours but `places/`."""
