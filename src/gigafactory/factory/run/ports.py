"""Blocks of TCP ports, one per run, so that parallel runs do not collide."""

import secrets
import socket

FIRST = 20_000
BLOCK = 20
BLOCKS = 600
"""All blocks lie below the ephemeral ports of common systems."""


class PortBlocks:
    """The port blocks of active runs on this factory."""

    def __init__(self, begin: int | None = None) -> None:
        """Search for a free block from block `begin` on; None: from a random one."""
        # Two factories on one machine should not try the same block first.
        self._begin = secrets.randbelow(BLOCKS) if begin is None else begin
        self._taken: set[int] = set()

    def reserve(self) -> int | None:
        """Reserve a block without a port in use; return its first port, or None."""
        for number in range(self._begin, self._begin + BLOCKS):
            base = FIRST + number % BLOCKS * BLOCK
            if base not in self._taken and all(map(_is_free, range(base, base + BLOCK))):
                self._taken.add(base)
                return base
        return None

    def release(self, base: int | None) -> None:
        """Release a block."""
        self._taken.discard(base or 0)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
