"""Ticket integration: import tickets as jobs, update tickets, receive webhooks."""
