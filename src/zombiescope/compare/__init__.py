"""Statistics: what was different before an event, over all events at once."""
