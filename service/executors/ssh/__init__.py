"""Scripts over SSH: keys, host keys, connections, and the executor."""
