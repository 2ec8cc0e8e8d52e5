"""The agent on each machine: it takes jobs, runs them in worktrees, and reports."""
