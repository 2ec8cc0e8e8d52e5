"""Limits per caller: bytes, request rate, failed authentications, bodies of unknown clients."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gigafactory.domain.errors import TooManyRequests, Unavailable

MIB = 1 << 20
FILE_BYTES_MAX = MIB + (MIB >> 3)
"""A job file: a body of 1 MiB, and room for its frontmatter."""
BATCH_BYTES_MAX = 16 * MIB
"""Batches of jobs or reports; also a single job in JSON, which escapes may enlarge."""
REQUEST_BYTES_MAX = MIB + (MIB >> 3)
"""All other requests except log chunks."""
CHUNK_BYTES_MAX = MIB
ENTRY_BYTES_MAX = 64 * 1024
"""An enrollment, whose sender has no token yet."""
UNKNOWN_BODIES_BYTES_MAX = 64 * MIB
UNKNOWN_BODY_MAX_S = 30.0
SMALL_BODY_BYTES_MAX = 4096
"""Logins and enrollments of people and factories are smaller."""

KEYS_MAX = 100_000
"""Callers remembered; beyond it, all counters are reset."""

Monotonic = Callable[[], float]


class RateLimiter:
    """Token-bucket rate limiter, one bucket per API token."""

    def __init__(
        self,
        *,
        per_second: float = 2000.0,
        burst: float = 4000.0,
        clock: Monotonic = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> None:
        """Count one request.

        Raises TooManyRequests when the bucket is empty.
        """
        now = self._clock()
        left, at = self._buckets.get(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        if left < 1.0:
            raise TooManyRequests(
                f"this token may send {self._per_second:g} requests a second; slow down",
                max(1, round((1.0 - left) / self._per_second)),
            )
        if len(self._buckets) >= KEYS_MAX:
            self._buckets.clear()
        self._buckets[key] = (left - 1.0, now)


class FailedAttempts:
    """Failed attempts of each address within a window."""

    def __init__(
        self, *, allowed: int = 20, window_s: float = 60.0, clock: Monotonic = time.monotonic
    ) -> None:
        self._allowed = allowed
        self._window_s = window_s
        self._clock = clock
        self._failed: dict[str, tuple[int, float]] = {}

    def count(self, address: str) -> None:
        """Count a failed attempt.

        Raises TooManyRequests for every one above the limit.
        """
        now = self._clock()
        count, since = self._failed.get(address, (0, now))
        if now - since >= self._window_s:
            count, since = 0, now
        if len(self._failed) >= KEYS_MAX:
            self._failed.clear()
        self._failed[address] = (count + 1, since)
        if count >= self._allowed:
            raise TooManyRequests(
                "this address has sent too many wrong tokens; wait and try again",
                max(1, round(self._window_s - (now - since))),
            )


class UnknownBodies:
    """Memory for the bodies of clients that prove only by their body who they are."""

    def __init__(self, bytes_max: int = UNKNOWN_BODIES_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._taken = 0

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Reserve memory for the duration of the block; a small body always finds some.

        Raises Unavailable when too much is taken.
        """
        counted = size if size > SMALL_BODY_BYTES_MAX else 0
        if counted and self._taken + counted > self._bytes_max:
            raise Unavailable("too many unknown clients are sending at once; try again in a moment")
        self._taken += counted
        try:
            yield
        finally:
            self._taken -= counted
