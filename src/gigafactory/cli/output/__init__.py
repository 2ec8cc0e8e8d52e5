"""Printing: tables, runs, events, progress."""
