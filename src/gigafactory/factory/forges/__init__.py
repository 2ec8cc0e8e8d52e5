"""Forges such as GitHub: pull requests, checks and merges."""
