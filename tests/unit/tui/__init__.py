"""The dashboard, with a plane that plays what it is told."""
