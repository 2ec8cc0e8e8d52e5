"""Pure rules and frozen records: no I/O, no clock, no randomness."""
