"""unstick: cures stuck GPU nodes by runbooks, and records what was done."""
