"""Many nodes: what each gives, where it is kept, what the sick have in common. Only here: duckdb, obstore, ray."""
