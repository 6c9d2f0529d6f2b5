"""The only room that changes a machine: apply a plan, undo it, prove it."""
