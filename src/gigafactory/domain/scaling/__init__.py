"""The scaling room."""
