"""The live view on a terminal: a recording that grows, or any moment of one, as one screen."""
