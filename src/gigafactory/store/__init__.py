"""Adapters of the store port: in memory, SQLite and PostgreSQL."""
