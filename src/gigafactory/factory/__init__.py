"""The agent on each machine: takes jobs, runs them in worktrees and reports their outcome."""
