"""The transport room."""
