"""Composites: jobs that expand into children; phases, plans, budgets and rollups."""
