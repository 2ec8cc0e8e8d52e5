"""Issue trackers: tickets as jobs, updates of tickets, webhook deliveries, defects."""
