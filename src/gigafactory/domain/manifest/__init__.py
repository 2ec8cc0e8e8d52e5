"""The manifest room."""
