"""Endpoints on jobs and their files."""
