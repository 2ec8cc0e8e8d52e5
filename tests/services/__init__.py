"""Real services that the test suite starts by itself, on loopback, and takes down again."""
