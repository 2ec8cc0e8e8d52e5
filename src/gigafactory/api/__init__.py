"""REST and event streams over the coordinator: one resource a file."""
