"""Use cases, named by the verb, and the ports they need."""
