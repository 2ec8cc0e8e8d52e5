"""The config room."""
