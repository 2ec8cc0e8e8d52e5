"""Live usage: report the usage of an engine while it works, so that budgets stay current."""

import asyncio

from msgspec.structs import replace

from gigafactory.domain.job.run import Usage
from gigafactory.factory.run import report_payloads
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.system.loops import run_every

EVERY_S = 5.0
"""Minimum interval of reports."""
MIN_GROWTH_FRACTION = 20
"""Report when usage grew by more than 1/20: the number of reports is logarithmic in usage."""


class LiveUsageReporter:
    """Reports the usage of a run while it works."""

    def __init__(self, run: ActiveRun, *, every_s: float = EVERY_S) -> None:
        self._run = run
        self._every_s = every_s
        self._changed = asyncio.Event()
        self._reported = Usage()

    def notify(self) -> None:
        """Signal that usage has grown."""
        self._changed.set()

    async def run(self) -> None:
        """Report forever, whenever usage has grown enough."""
        await run_every(self._every_s, self._report, name="usage")

    async def _report(self) -> None:
        await self._changed.wait()
        self._changed.clear()
        usage, report = self._run.findings.total_usage, report_payloads.usage_update(self._run)
        if usage is not None and report is not None and is_worth_reporting(self._reported, usage):
            self._run.reporter.report(report)
            self._reported = usage


def is_worth_reporting(before: Usage, usage: Usage) -> bool:
    """Return whether usage has grown by more than the minimum fraction."""
    return _has_grown(before.tokens, usage.tokens) or _has_grown(
        before.cost_nano_usd or 0, usage.cost_nano_usd or 0
    )


def _has_grown(before: int, now: int) -> bool:
    return (now - before) * MIN_GROWTH_FRACTION > before


def add_usage(before: Usage | None, more: Usage) -> Usage:
    """Return the sum; the cost is known only if every part with usage has a cost."""
    if before is None:
        return more
    costs = [u.cost_nano_usd for u in (before, more) if u.cost_nano_usd is not None or u.nonzero]
    known_costs = [cost for cost in costs if cost is not None]
    return replace(
        more,
        engine=more.engine or before.engine,
        model=more.model or before.model,
        tokens_in=before.tokens_in + more.tokens_in,
        tokens_cached=before.tokens_cached + more.tokens_cached,
        tokens_cache_write=before.tokens_cache_write + more.tokens_cache_write,
        tokens_out=before.tokens_out + more.tokens_out,
        tokens_reasoning=before.tokens_reasoning + more.tokens_reasoning,
        cost_nano_usd=sum(known_costs) if known_costs and len(known_costs) == len(costs) else None,
        estimated=before.estimated or more.estimated,
        turns=before.turns + more.turns,
        tool_calls=before.tool_calls + more.tool_calls,
    )
