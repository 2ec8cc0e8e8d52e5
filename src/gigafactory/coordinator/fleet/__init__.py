"""The fleet room."""
