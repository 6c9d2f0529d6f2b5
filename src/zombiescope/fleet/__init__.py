"""Many recordings; the only room that knows duckdb and ray."""
