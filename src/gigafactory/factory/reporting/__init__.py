"""Reports to the coordinator: outbox, logs, lease confirmation, and fleet access of agents."""
