"""The phases of a run, one per file; each returns None to continue, or the outcome of the run."""
