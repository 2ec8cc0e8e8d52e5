"""The queue room."""
