"""What each engine is started with, and what its output means."""
