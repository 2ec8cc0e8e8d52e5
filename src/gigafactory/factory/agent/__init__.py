"""The factory agent: heartbeats, lease renewal, capacity and the source of work."""
