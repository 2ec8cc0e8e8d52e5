"""Adapters of the `Tracker` port: GitHub issues, the items API, webhook-only."""
