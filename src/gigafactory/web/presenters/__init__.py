"""The presenters room."""
