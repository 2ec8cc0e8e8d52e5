"""The folder_source room."""
