"""The rules of the factory."""
