"""The number of fuzzing examples: few in a normal test run, more with `make fuzz`."""

import os

FACTOR = int(os.environ.get("FUZZ_FACTOR", "1"))
"""A multiplier that `python -m tests.fuzz` sets."""


def examples(usual: int) -> int:
    """Return the number of examples of a test."""
    return usual * FACTOR
