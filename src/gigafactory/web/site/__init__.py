"""The site room."""
