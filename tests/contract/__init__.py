"""One suite for every adapter of a port: what the port promises, whoever keeps it."""
