"""What calls `drive` when a node run is due."""
