"""The duties room."""
