"""The secrets room."""
