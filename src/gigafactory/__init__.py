"""Gigafactory turns written intent into shipped software on a fleet of machines."""

__version__ = "0.1.0"
