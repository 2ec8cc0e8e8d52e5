"""The insights room."""
