"""The access room."""
