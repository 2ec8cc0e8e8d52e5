"""The typed HTTP client that factory, TUI and CLI share; each opens what it needs of it."""
