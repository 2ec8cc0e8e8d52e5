"""Metrics, roll-ups, objectives, learned routing, attention items and event streams."""
