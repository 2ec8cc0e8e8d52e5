"""The tracker room."""
