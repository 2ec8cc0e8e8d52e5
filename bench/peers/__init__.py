"""Other durable Python queues with the same no-op jobs, each with its best settings."""
