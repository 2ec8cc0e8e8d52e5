"""Garbage collection (`aq gc`): worktrees, homes, logs, branches and mirrors no longer needed."""
