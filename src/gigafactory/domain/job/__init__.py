"""Jobs and runs: records, the lifecycle, leases, offers, outcomes, retries and artifacts."""
