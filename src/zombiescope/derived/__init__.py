"""Series and lists that several members work out of a timeline: busy cores, log lines that mean something."""
