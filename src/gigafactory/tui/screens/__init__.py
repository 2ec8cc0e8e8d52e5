"""Screens of the dashboard: views, job detail and help."""
