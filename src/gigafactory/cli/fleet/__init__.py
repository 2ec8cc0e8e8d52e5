"""Commands for operating a fleet."""
