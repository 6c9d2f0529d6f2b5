"""The loop that looks, and what it keeps."""
