"""Durable Python queues, each at its own best setting, with the same no-op jobs."""
