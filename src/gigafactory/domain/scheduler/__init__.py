"""The scheduler: scoring, fair share, placement, preemption and explanations."""
