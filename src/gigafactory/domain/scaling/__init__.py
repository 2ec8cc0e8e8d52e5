"""Autoscaling: demand, wanted factories per shape, and the plan to start and drain machines."""
