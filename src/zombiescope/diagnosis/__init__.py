"""The engine: it runs every sign, joins by every law, and knows rooms, never members."""
