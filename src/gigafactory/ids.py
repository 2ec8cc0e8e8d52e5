"""Names that sort by creation, and secrets that nobody can guess."""

import secrets
from datetime import datetime

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""32 signs in their order, without those that people mistake for one another."""
RANDOM_BITS = 80


class RandomIds:
    """48 bits of milliseconds and 80 of chance, in 26 signs; they sort as they were made."""

    def __init__(self) -> None:
        """Begin with no id made."""
        self._last = 0

    def new(self, now: datetime) -> str:
        """See the port."""
        made = (int(now.timestamp() * 1000) << RANDOM_BITS) | secrets.randbits(RANDOM_BITS)
        if made <= self._last:
            made = self._last + 1 + secrets.randbits(32)
        self._last = made
        return "".join(ALPHABET[made >> shift & 31] for shift in range(125, -1, -5))

    def secret(self) -> str:
        """See the port."""
        return secrets.token_urlsafe(32)
