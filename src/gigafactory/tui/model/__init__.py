"""Data sources of the dashboard and the actions that its keys offer."""
