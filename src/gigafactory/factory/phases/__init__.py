"""The steps of a run, one a file: each gives None to go on, or how the run ends."""
