"""The scheduler room."""
