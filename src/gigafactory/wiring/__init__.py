"""The wiring room."""
