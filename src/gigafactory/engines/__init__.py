"""The coding agents: one a file, its command line and the meaning of its output, all of it pure."""
