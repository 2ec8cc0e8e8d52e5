"""What several starts of an engine have used together."""

from msgspec.structs import replace

from gigafactory.domain.run import Usage


def added(before: Usage | None, more: Usage) -> Usage:
    """The sum; a cost is known only where each part that used anything has one."""
    if before is None:
        return more
    costs = [u.cost_nano_usd for u in (before, more) if u.cost_nano_usd is not None or u.any]
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
