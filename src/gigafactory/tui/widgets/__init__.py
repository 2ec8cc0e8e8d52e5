"""Reusable widgets: row lists, log view, prompts and text rendering."""
