"""Insights: run rollups, tallies, service objectives, recommendations and learned routing."""
