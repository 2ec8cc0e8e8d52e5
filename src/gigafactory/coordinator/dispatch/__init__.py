"""Offers, claims and grants: how jobs reach factories."""
