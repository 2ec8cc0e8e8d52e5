"""What all coordinator code shares: ports, committer, leadership, audit log, counters."""
