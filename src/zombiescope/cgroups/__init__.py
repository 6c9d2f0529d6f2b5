"""Cgroups: how many there are, which belong together, whose they are."""
