"""The gc room."""
