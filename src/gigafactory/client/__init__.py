"""Typed HTTP client of the API, used by the factory, the CLI and the TUI."""
