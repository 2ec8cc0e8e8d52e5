"""The lifecycle room."""
