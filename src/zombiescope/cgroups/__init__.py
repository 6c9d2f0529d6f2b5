"""Cgroups: how many there are, which belong together, who owns them."""
