"""One rule for images a file: WHEN, look(image), saw(image)."""
