"""Real services that the test suite starts on loopback and stops again."""
