"""Runs as names and values."""

from collections.abc import Mapping
from typing import Any

from gigafactory.cli.output.text import clock
from gigafactory.domain.elapsed import format_elapsed
from gigafactory.wire.runs import RunView, UsageView

TOKENS = {
    "tokens_in": "in",
    "tokens_cached": "cached",
    "tokens_cache_write": "cache write",
    "tokens_out": "out",
}


def run_pairs(run: RunView) -> tuple[tuple[str, object], ...]:
    """Return what is known of a run as names and values."""
    used = run.usage
    return (
        ("factory", run.factory_id),
        ("attempt", run.attempt),
        ("engine", _engine(run)),
        ("model", used and used.model),
        ("tools", [f"{name} {v}" for name, v in run.versions.items() if name != run.engine]),
        ("granted", clock(run.granted_at)),
        ("time", _time(run)),
        ("result", run.result or "running"),
        ("reason", run.reason),
        ("tokens", _tokens(used)),
        ("cost", _cost(used)),
        ("turns", (used and used.turns) or None),
        ("calls", _calls(used)),
        ("diff", _diff(run.diff)),
        ("verify", _verify(run.verify)),
        ("review", run.review),
        ("edited", _edited(run.edited_lines)),
        ("propensity", run.decision.get("propensity")),
    )


def _engine(run: RunView) -> str | None:
    version = run.versions.get(run.engine or "")
    return f"{run.engine} {version}" if version else run.engine


def _time(run: RunView) -> str | None:
    if run.wall_sec is None:
        return None
    cpu = f" (CPU {format_elapsed(run.cpu_sec)})" if run.cpu_sec is not None else ""
    return format_elapsed(run.wall_sec) + cpu


def _tokens(used: UsageView | None) -> list[str]:
    counts = ((getattr(used, name, 0), word) for name, word in TOKENS.items())
    return [f"{count} {word}" for count, word in counts if count]


def _cost(used: UsageView | None) -> str | None:
    if used is None or used.cost_usd is None:
        return None
    return f"${used.cost_usd}" + (" (estimated)" if used.estimated else "")


def _calls(used: UsageView | None) -> list[str] | int | None:
    if used is None:
        return None
    by_name = [f"{name} {calls}" for name, calls in used.tools.items()]
    return by_name or used.tool_calls or None


def _diff(diff: Mapping[str, Any] | None) -> str | None:
    if not diff or "filesChanged" not in diff:
        return None
    lines = f"+{diff.get('linesAdded', 0)} -{diff.get('linesDeleted', 0)}"
    return f"{diff['filesChanged']} files, {lines}"


def _edited(lines: int | None) -> str | None:
    return f"{lines} lines by people before shipping" if lines else None


def _verify(verify: Mapping[str, Any] | None) -> str | None:
    return None if verify is None else "passed" if verify.get("passed") is True else "failed"
