"""The workers room."""
