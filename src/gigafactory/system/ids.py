"""Names that sort by creation, and secrets that nobody can guess."""

import random
import secrets
from datetime import datetime

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""32 signs in their order, without those that people mistake for one another."""
RANDOM_BITS = 80
PAIRS = tuple(first + second for first in ALPHABET for second in ALPHABET)


class RandomIds:
    """48 bits of milliseconds and 80 of chance, in 26 signs; they sort as they were made."""

    def __init__(self) -> None:
        """Begin with no id made."""
        self._last = 0
        # A name is no secret: chance that is drawn from the system once saves a call for each id.
        self._chance = random.Random(secrets.randbits(256)).getrandbits  # noqa: S311

    def new(self, now: datetime) -> str:
        made = (int(now.timestamp() * 1000) << RANDOM_BITS) | self._chance(RANDOM_BITS)
        if made <= self._last:
            made = self._last + 1 + self._chance(32)
        self._last = made
        return "".join([PAIRS[made >> shift & 1023] for shift in range(120, -1, -10)])

    def secret(self) -> str:
        return secrets.token_urlsafe(32)
