"""The machine room."""
