"""What is known of the world, as data: TOML files beside this one, read by one loader, `tables`."""
