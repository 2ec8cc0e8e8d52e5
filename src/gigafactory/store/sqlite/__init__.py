"""The embedded store: one SQLite file, owned by one coordinator."""
