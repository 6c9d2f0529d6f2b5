"""Series and lists that several members derive from a timeline: busy cores, recognised log lines."""
