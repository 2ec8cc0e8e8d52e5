"""Ids that sort by creation time, and secrets that cannot be guessed."""

import random
import secrets
from datetime import datetime

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""32 characters in sort order, without those that people confuse."""
RANDOM_BITS = 80
PAIRS = tuple(first + second for first in ALPHABET for second in ALPHABET)


class RandomIds:
    """Ids of 48 bits of milliseconds and 80 random bits, in 26 characters that sort by time."""

    def __init__(self) -> None:
        self._last = 0
        # An id is no secret: seeding once from the system saves a system call for each id.
        self._chance = random.Random(secrets.randbits(256)).getrandbits  # noqa: S311

    def new(self, now: datetime) -> str:
        """Return an id for `now` that sorts after all earlier ones."""
        made = (int(now.timestamp() * 1000) << RANDOM_BITS) | self._chance(RANDOM_BITS)
        if made <= self._last:
            made = self._last + 1 + self._chance(32)
        self._last = made
        return "".join([PAIRS[made >> shift & 1023] for shift in range(120, -1, -10)])

    def secret(self) -> str:
        """Return a secret that cannot be guessed."""
        return secrets.token_urlsafe(32)
