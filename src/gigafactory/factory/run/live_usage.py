"""Live usage: while an engine works, what it has used so far is told, so that budgets follow."""

import asyncio

from msgspec.structs import replace

from gigafactory.domain.job.run import Usage
from gigafactory.factory.run import report_payloads
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.system.loops import every

EVERY_S = 5.0
"""So often at the most."""
MIN_GROWTH_FRACTION = 20
"""One part in so many more is worth telling: the number of reports grows with the logarithm."""


class LiveUsageReporter:
    """Tells what a run uses, while it uses it."""

    def __init__(self, run: ActiveRun, *, every_s: float = EVERY_S) -> None:
        """Tell of this run."""
        self._run = run
        self._every_s = every_s
        self._changed = asyncio.Event()
        self._reported = Usage()

    def notify(self) -> None:
        """There is more than before."""
        self._changed.set()

    async def run(self) -> None:
        """Tell, for ever, as often as it is worth it."""
        await every(self._every_s, self._report, name="usage")

    async def _report(self) -> None:
        await self._changed.wait()
        self._changed.clear()
        usage, told = self._run.findings.total_usage, report_payloads.usage_update(self._run)
        if usage is not None and told is not None and is_worth_reporting(self._reported, usage):
            self._run.reporter.report(told)
            self._reported = usage


def is_worth_reporting(before: Usage, usage: Usage) -> bool:
    """Whether usage has grown by more than a small part since it was told."""
    return _grown(before.tokens, usage.tokens) or _grown(
        before.cost_nano_usd or 0, usage.cost_nano_usd or 0
    )


def _grown(before: int, now: int) -> bool:
    return (now - before) * MIN_GROWTH_FRACTION > before


def add_usage(before: Usage | None, more: Usage) -> Usage:
    """The sum; a cost is known only where each part that used anything has one."""
    if before is None:
        return more
    costs = [u.cost_nano_usd for u in (before, more) if u.cost_nano_usd is not None or u.nonzero]
    known = [cost for cost in costs if cost is not None]
    return replace(
        more,
        engine=more.engine or before.engine,
        model=more.model or before.model,
        tokens_in=before.tokens_in + more.tokens_in,
        tokens_cached=before.tokens_cached + more.tokens_cached,
        tokens_cache_write=before.tokens_cache_write + more.tokens_cache_write,
        tokens_out=before.tokens_out + more.tokens_out,
        tokens_reasoning=before.tokens_reasoning + more.tokens_reasoning,
        cost_nano_usd=sum(known) if known and len(known) == len(costs) else None,
        estimated=before.estimated or more.estimated,
        turns=before.turns + more.turns,
        tool_calls=before.tool_calls + more.tool_calls,
    )
