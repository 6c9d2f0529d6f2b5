"""Stacks: readers, columns, flame trees, writers."""
