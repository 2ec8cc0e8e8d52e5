"""The serve room."""
