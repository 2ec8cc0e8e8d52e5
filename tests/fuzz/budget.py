"""How much is tried: little in every test run, more with `make fuzz`."""

import os

FACTOR = int(os.environ.get("FUZZ_FACTOR", "1"))
"""Set by `python -m tests.fuzz`."""


def examples(usual: int) -> int:
    """Return the number of examples of a test."""
    return usual * FACTOR
