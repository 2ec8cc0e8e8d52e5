"""Where it is measured: a private PostgreSQL, and how much of everything."""

import asyncio
from collections.abc import Callable
from statistics import median

import asyncpg

from tests.services.postgres import Server

ROUNDS = 3


class Ground:
    """What every question stands on."""

    def __init__(self, server: Server, *, quick: bool) -> None:
        self._server = server
        self._databases = 0
        self.quick = quick
        self.scale = 4 if quick else 1
        self.rounds = 1 if quick else ROUNDS

    def database(self) -> str:
        """A fresh database."""
        self._databases += 1
        name = f"bench_{self._databases}"

        async def make() -> None:
            connection = await asyncpg.connect(self._server.dsn("postgres"))
            await connection.execute(f"CREATE DATABASE {name}")
            await connection.close()

        asyncio.run(make())
        return self._server.dsn(name)

    def several(self, measure: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
        """The median of several rounds, figure by figure."""
        rounds = [measure() for _ in range(self.rounds)]
        return tuple(median(figures) for figures in zip(*rounds, strict=True))
