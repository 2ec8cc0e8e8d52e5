"""Submission of jobs, and queries on jobs, composites and profiles."""
