"""Where a result is delivered to: forges with pull requests, and plain git remotes."""
