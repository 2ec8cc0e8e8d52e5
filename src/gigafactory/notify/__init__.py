"""Adapters that send notifications."""
