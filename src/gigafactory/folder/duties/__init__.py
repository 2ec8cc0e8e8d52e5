"""Background duties of a folder queue: cron, recovery and unblocking."""
