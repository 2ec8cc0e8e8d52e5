"""The queue of a folder: board, records, claims, intake, scheduling and actions."""
