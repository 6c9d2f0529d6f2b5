"""The sampling loop, and the recordings it writes."""
