"""What all benchmarks share: a private PostgreSQL, the load and the number of rounds."""

import asyncio
from collections.abc import Callable, Mapping
from statistics import median

import asyncpg

from tests.services.postgres import Server

ROUNDS = 3


class Harness:
    """Creates databases and repeats measurements, at full or `quick` scale."""

    def __init__(self, server: Server, *, quick: bool) -> None:
        self._server = server
        self._databases = 0
        self.quick = quick
        self.scale = 4 if quick else 1
        self.rounds = 1 if quick else ROUNDS

    def database(self) -> str:
        """Create an empty database and return its address."""
        self._databases += 1
        name = f"bench_{self._databases}"

        async def make() -> None:
            connection = await asyncpg.connect(self._server.dsn("postgres"))
            await connection.execute(f"CREATE DATABASE {name}")
            await connection.close()

        asyncio.run(make())
        return self._server.dsn(name)

    def in_turn(
        self, measures: Mapping[str, Callable[[], tuple[float, ...]]]
    ) -> dict[str, tuple[float, ...]]:
        """Return the median over several rounds of each figure of each measure.

        Every round runs all measures, so that a slow minute of the machine affects them all.
        """
        rounds = [
            {name: measure() for name, measure in measures.items()} for _ in range(self.rounds)
        ]
        return {
            name: tuple(median(figures) for figures in zip(*(r[name] for r in rounds), strict=True))
            for name in measures
        }
