"""Fuzzing: hostile input for every parser and for the API."""
