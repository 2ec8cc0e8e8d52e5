"""Seeded histories of crashes and races on the real coordinator, checked independently."""
