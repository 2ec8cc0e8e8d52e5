"""One run on this machine: its state, environment, checkpoints, reports, and crash recovery."""
