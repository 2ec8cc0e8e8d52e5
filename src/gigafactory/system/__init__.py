"""Helpers for all layers: clock, ids, logging, files, formatting, threads and TLS."""
