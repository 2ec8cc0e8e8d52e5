"""Everything that moves a job through its lifecycle: actions, reports, plans, composites."""
