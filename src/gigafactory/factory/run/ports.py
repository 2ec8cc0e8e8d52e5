"""Blocks of ports, one a run: what parallel worktrees serve does not get into each other's way."""

import secrets
import socket

FIRST = 20_000
BLOCK = 20
BLOCKS = 600
"""All of them lie below the ports that systems give away by themselves."""


class PortBlocks:
    """The blocks that the runs of this factory have."""

    def __init__(self, begin: int | None = None) -> None:
        """Look for free blocks from this one on; without it, from any."""
        # Another factory on this machine should not come upon the same one first.
        self._begin = secrets.randbelow(BLOCKS) if begin is None else begin
        self._taken: set[int] = set()

    def reserve(self) -> int | None:
        """The first port of a block in which nothing listens now; None when there is none."""
        for number in range(self._begin, self._begin + BLOCKS):
            base = FIRST + number % BLOCKS * BLOCK
            if base not in self._taken and all(map(_is_free, range(base, base + BLOCK))):
                self._taken.add(base)
                return base
        return None

    def release(self, base: int | None) -> None:
        """Let another run have the block."""
        self._taken.discard(base or 0)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
