"""The pages as people see them, in a real browser."""
