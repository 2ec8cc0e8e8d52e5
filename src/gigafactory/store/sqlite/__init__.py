"""The embedded home of the records: one file, one writer, readers beside it."""
