"""The shell: read through a port, ask the domain, commit, announce."""
