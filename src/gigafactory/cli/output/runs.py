"""Runs as people read them: where, with what, how long, for how much, and what came of it."""

from collections.abc import Mapping
from typing import Any

from gigafactory.cli.output.text import clock
from gigafactory.system.formatting import format_elapsed
from gigafactory.wire.answers import Run

TOKENS = {
    "tokensIn": "in",
    "tokensCached": "cached",
    "tokensCacheWrite": "cache write",
    "tokensOut": "out",
}


def run_pairs(run: Run) -> tuple[tuple[str, object], ...]:
    """What is known of a run, as names and values."""
    used = run.usage or {}
    return (
        ("factory", run.factory_id),
        ("attempt", run.attempt),
        ("engine", _engine(run)),
        ("model", used.get("model")),
        ("tools", [f"{name} {v}" for name, v in run.versions.items() if name != run.engine]),
        ("granted", clock(run.granted_at)),
        ("time", _time(run)),
        ("result", run.result or "under way"),
        ("reason", run.reason),
        ("tokens", [f"{used[name]} {word}" for name, word in TOKENS.items() if used.get(name)]),
        ("cost", _cost(used)),
        ("turns", used.get("turns") or None),
        ("calls", _calls(used)),
        ("diff", _diff(run.diff)),
        ("verify", _verify(run.verify)),
        ("review", run.review),
        ("edited", _edited(run.edited_lines)),
        ("propensity", run.decision.get("propensity")),
    )


def _engine(run: Run) -> str | None:
    version = run.versions.get(run.engine or "")
    return f"{run.engine} {version}" if version else run.engine


def _time(run: Run) -> str | None:
    if run.wall_sec is None:
        return None
    cpu = f" (processor {format_elapsed(run.cpu_sec)})" if run.cpu_sec is not None else ""
    return format_elapsed(run.wall_sec) + cpu


def _cost(used: Mapping[str, Any]) -> str | None:
    if used.get("costUsd") is None:
        return None
    return f"${used['costUsd']}" + (" (estimated)" if used.get("estimated") else "")


def _calls(used: Mapping[str, Any]) -> list[str] | int | None:
    by_name = [f"{name} {calls}" for name, calls in (used.get("tools") or {}).items()]
    return by_name or used.get("toolCalls") or None


def _diff(diff: Mapping[str, Any] | None) -> str | None:
    if not diff or "filesChanged" not in diff:
        return None
    lines = f"+{diff.get('linesAdded', 0)} -{diff.get('linesDeleted', 0)}"
    return f"{diff['filesChanged']} files, {lines}"


def _edited(lines: int | None) -> str | None:
    return f"{lines} lines, by people before the ship" if lines else None


def _verify(verify: Mapping[str, Any] | None) -> str | None:
    return None if verify is None else "passed" if verify.get("passed") is True else "failed"
