"""Endpoints for factories: claims, reports, heartbeats, scaling."""
