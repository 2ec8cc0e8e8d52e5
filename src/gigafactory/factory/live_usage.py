"""Live usage: while an engine works, what it has used so far is told, so that budgets follow."""

import asyncio

from gigafactory.domain.run import Usage
from gigafactory.factory import telling
from gigafactory.factory.run import Run
from gigafactory.loops import every

EVERY_S = 5.0
"""So often at the most."""
WORTH = 20
"""One part in so many more is worth telling: the number of reports grows with the logarithm."""


class LiveUsage:
    """Tells what a run uses, while it uses it."""

    def __init__(self, run: Run, *, every_s: float = EVERY_S) -> None:
        """Tell of this run."""
        self._run = run
        self._every_s = every_s
        self._news = asyncio.Event()
        self._told = Usage()

    def changed(self) -> None:
        """There is more than before."""
        self._news.set()

    async def run(self) -> None:
        """Tell, for ever, as often as it is worth it."""
        await every(self._every_s, self._tell, name="usage")

    async def _tell(self) -> None:
        await self._news.wait()
        self._news.clear()
        usage, told = self._run.findings.used, telling.used(self._run)
        if usage is not None and told is not None and worth_telling(self._told, usage):
            self._run.reporter.report(told)
            self._told = usage


def worth_telling(before: Usage, usage: Usage) -> bool:
    """Whether usage has grown by more than a small part since it was told."""
    return _grown(before.tokens, usage.tokens) or _grown(
        before.cost_nano_usd or 0, usage.cost_nano_usd or 0
    )


def _grown(before: int, now: int) -> bool:
    return (now - before) * WORTH > before
