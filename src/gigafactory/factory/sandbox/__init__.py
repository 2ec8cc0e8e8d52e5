"""The sandbox room."""
