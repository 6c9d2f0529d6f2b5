"""Facts about agents, kernels and messages, as data: TOML files beside this one, read by one loader, `tables`."""
