"""Redaction of secrets: known values in all encodings, and text that looks like a credential."""
