"""Pure rules and immutable records: no I/O, no clock, no randomness."""
