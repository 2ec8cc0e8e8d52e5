"""The composite room."""
