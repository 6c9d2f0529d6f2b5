"""Profiles as the servers of others take them: Pyroscope, Parca, OTLP."""
