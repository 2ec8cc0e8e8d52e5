"""The homes of bytes: local files."""
