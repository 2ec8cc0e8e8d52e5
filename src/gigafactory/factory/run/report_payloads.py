"""What a run tells of itself: at its beginning, while it goes on, and at its end."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import Usage
from gigafactory.domain.manifest.engine_ref import base_engine
from gigafactory.domain.manifest.units import format_usd
from gigafactory.factory.core.assignment import Assignment, RunOutcome
from gigafactory.factory.core.stop import StopReason
from gigafactory.factory.machine.tools import TOOLS
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.factory.secrets.redaction import redact

HANDED_BACK = frozenset({Result.PREEMPTED, Result.RELEASED, Result.LOST})


def run_started(run: ActiveRun) -> dict[str, Any]:
    """That it works, and with what."""
    return {"stage": "building", "versions": _versions(run)}


def run_ended(run: ActiveRun, outcome: RunOutcome) -> dict[str, Any] | None:
    """How it came out; one whose lease is another's by now tells only what it has spent."""
    if run.stop.reason in {StopReason.FENCED, StopReason.CANCELLED}:
        return usage_update(run)
    told: dict[str, Any] = {"result": outcome.result, **_next_stage(run, outcome)}
    if outcome.retry_after_s is not None:
        told["retryAfter"] = outcome.retry_after_s
    found = run.findings
    if found.verify is not None:
        told["verify"] = _without_secrets(run, found.verify)
    if found.diff is not None:
        told["diff"] = found.diff
    if found.checkpoint is not None:
        told["checkpoint"] = msgspec.to_builtins(found.checkpoint)
    if found.edited_lines is not None:
        told["editedLines"] = found.edited_lines
    if found.total_usage is not None:
        told["usage"] = usage_to_json(found.total_usage)
    told |= {"wallSec": round(run.wall_s, 3), "cpuSec": round(run.cpu_s, 3)}
    if run.assignment.step is Step.SHIP:
        told["versions"] = _versions(run)
    run.log_line(f"ended: {outcome.result}" + (f", {outcome.reason}" if outcome.reason else ""))
    return told


def usage_update(run: ActiveRun) -> dict[str, Any] | None:
    """What it has used so far; None for nothing that anybody has counted."""
    usage = run.findings.total_usage
    return {"usage": usage_to_json(usage)} if usage is not None and usage.nonzero else None


def usage_to_json(usage: Usage) -> dict[str, Any]:
    """Usage as a report carries it: a sum of money in the words of people."""
    told: dict[str, Any] = msgspec.to_builtins(usage)
    nanos = told.pop("costNanoUsd", None)
    if isinstance(nanos, int):
        told["costUsd"] = format_usd(nanos)
    return told


def _next_stage(run: ActiveRun, outcome: RunOutcome) -> dict[str, Any]:
    """The stage that follows, and why."""
    if outcome.succeeded:
        return {"stage": _success_stage(run)}
    reason = redact(outcome.reason, run.equipment.secrets)
    if outcome.result in HANDED_BACK:
        return {"stage": "queued", "reason": reason}
    return {"stage": "failed", "reason": reason or str(outcome.result)}


def _success_stage(run: ActiveRun) -> str:
    if run.assignment.step is Step.SHIP:
        return "shipped"
    guarded = bool((run.findings.diff or {}).get("protected"))
    return "review" if guarded else "testing"


def _without_secrets(run: ActiveRun, verify: dict[str, Any]) -> dict[str, Any]:
    printed = redact(str(verify.get("output", "")), run.equipment.secrets)
    return {**verify, "output": printed}


def _versions(run: ActiveRun) -> dict[str, str]:
    return tool_versions(run.assignment, run.equipment.capabilities)


ALWAYS = "git"

_TOOLS = frozenset(tool.name for tool in TOOLS)
_KEY = re.compile(r"(?:has:)?([^:<>=]+)")


def tool_versions(assignment: Assignment, found: Iterable[str]) -> dict[str, str]:
    """By name, as far as this machine knows them; `found` are its capability tokens."""
    named = (match[1] for token in assignment.manifest.capabilities if (match := _KEY.match(token)))
    wanted = {ALWAYS, *(name for name in named if name in _TOOLS)}
    if assignment.engine is not None:
        wanted.add(base_engine(assignment.engine))
    known = dict(token.split(":", 1) for token in found if ":" in token)
    return {name: known[name] for name in sorted(wanted) if name in known}
