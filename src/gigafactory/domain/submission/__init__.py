"""New jobs: drafts, dependencies, children of composites, schedules, replanning, retention."""
