"""Arithmetic on usage figures, for the different ways in which engines count."""

from collections.abc import Callable

from gigafactory.domain.job.run import USAGE_MAX, Usage

SEEN_MAX = 100_000


class SeenIds:
    """Ids that were seen before, in bounded memory."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def is_new(self, name: str) -> bool:
        """Return whether an id is new, and remember it; an empty id is always new."""
        if not name:
            return True
        if name in self._ids:
            return False
        if len(self._ids) < SEEN_MAX:
            self._ids.add(name)
        return True


def add(one: Usage, other: Usage) -> Usage:
    """Return the sum; other fields are those of the first."""
    return _merged(one, other, lambda a, b: min(a + b, USAGE_MAX))


def subtract(total: Usage, before: Usage | None) -> Usage:
    """Return the usage since `before`, never negative."""
    return total if before is None else _merged(total, before, lambda a, b: max(a - b, 0))


def maximum(one: Usage, other: Usage) -> Usage:
    """Return the larger figure of each field: two readings of one growing count."""
    return _merged(one, other, max)


def sum_costs(*costs: int | None) -> int | None:
    """Return the sum of costs; None for zero, which means an unknown price."""
    return min(sum(cost or 0 for cost in costs), USAGE_MAX) or None


def _merged(one: Usage, other: Usage, figure: Callable[[int, int], int]) -> Usage:
    cost = one.cost_nano_usd
    if cost is not None and other.cost_nano_usd is not None:
        cost = figure(cost, other.cost_nano_usd)
    return Usage(
        engine=one.engine,
        model=one.model,
        tokens_in=figure(one.tokens_in, other.tokens_in),
        tokens_cached=figure(one.tokens_cached, other.tokens_cached),
        tokens_cache_write=figure(one.tokens_cache_write, other.tokens_cache_write),
        tokens_out=figure(one.tokens_out, other.tokens_out),
        tokens_reasoning=figure(one.tokens_reasoning, other.tokens_reasoning),
        cost_nano_usd=cost,
        estimated=one.estimated,
        turns=figure(one.turns, other.turns),
        tool_calls=figure(one.tool_calls, other.tool_calls),
    )
