"""What is installed, enabled, running, restarting, used."""
