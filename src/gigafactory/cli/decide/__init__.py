"""Commands for decisions of people."""
