"""The folder room."""
