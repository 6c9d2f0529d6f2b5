"""Names for addresses: (pid, address, time) to functions. Files of others are opened safely, and only here."""
