"""One suite per port that checks its contract on every adapter."""
