"""The submission room."""
