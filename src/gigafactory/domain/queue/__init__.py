"""The ready queue: queued jobs in memory, by job class and by lock."""
