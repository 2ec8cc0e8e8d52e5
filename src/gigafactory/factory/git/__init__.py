"""Git for factories: mirrors, worktrees, snapshots, pushes and merges, isolated from jobs."""
