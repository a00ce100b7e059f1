"""How a script reaches a machine."""
