"""Commands for folder queues."""
