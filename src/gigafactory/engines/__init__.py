"""Engines: one coding agent per file, with its command line and the parser of its output."""
