"""Checkpoints: while a run goes on, its work is saved every few minutes."""

import asyncio
from types import TracebackType
from typing import Self

import structlog

from gigafactory.factory.run import Run
from gigafactory.loops import every

EVERY_S = 180.0

log = structlog.get_logger()


class Checkpoints:
    """Saves the work in progress for as long as the block lasts."""

    def __init__(self, run: Run, *, every_s: float = EVERY_S) -> None:
        """Save the work of this run."""
        self._run = run
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        assert self._task is not None, "it was entered"
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _keep(self) -> None:
        await asyncio.sleep(self._every_s)
        await every(self._every_s, self._save, name="checkpoint")

    async def _save(self) -> None:
        await self._run.save()
