"""The homes of the records: memory (the reference), SQLite, PostgreSQL."""
