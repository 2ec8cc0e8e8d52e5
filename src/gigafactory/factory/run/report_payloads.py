"""Reports of a run: at its start, while it works, and at its end."""

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from gigafactory.domain.job.job import Result, Stage, Step
from gigafactory.domain.job.worker_report import Report
from gigafactory.domain.manifest.engine_ref import base_engine
from gigafactory.factory.core.assignment import Assignment, RunOutcome
from gigafactory.factory.core.stop import StopReason
from gigafactory.factory.machine.tools import TOOLS
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.factory.secrets.redaction import redact

HANDED_BACK = frozenset({Result.PREEMPTED, Result.RELEASED, Result.LOST})


def run_started(run: ActiveRun) -> Report:
    """Return the report that a run has begun, with the tool versions it uses."""
    return run.report(stage=Stage.BUILDING, versions=_versions(run))


def run_ended(run: ActiveRun, outcome: RunOutcome) -> Report | None:
    """Return the report on how a run ended; after losing its lease, only what it used."""
    if run.stop.reason in {StopReason.FENCED, StopReason.CANCELLED}:
        return usage_update(run)
    findings, wait_s = run.findings, outcome.retry_after_s
    stage, reason = _next_stage(run, outcome)
    run.log_line(f"ended: {outcome.result}" + (f", {outcome.reason}" if outcome.reason else ""))
    return run.report(
        stage=stage,
        result=outcome.result,
        reason=reason,
        retry_after=None if wait_s is None else timedelta(seconds=wait_s),
        verify=None if findings.verify is None else _without_secrets(run, findings.verify),
        diff=findings.diff,
        checkpoint=findings.checkpoint,
        edited_lines=findings.edited_lines,
        usage=findings.total_usage,
        wall_sec=round(run.wall_s, 3),
        cpu_sec=round(run.cpu_s, 3),
        versions=_versions(run) if run.assignment.step is Step.SHIP else None,
    )


def usage_update(run: ActiveRun) -> Report | None:
    """Return the report on what a run has used so far; None if nothing was metered."""
    usage = run.findings.total_usage
    return run.report(usage=usage) if usage is not None and usage.nonzero else None


def _next_stage(run: ActiveRun, outcome: RunOutcome) -> tuple[Stage, str | None]:
    if outcome.succeeded:
        return _success_stage(run), None
    reason = redact(outcome.reason, run.equipment.secrets)
    if outcome.result in HANDED_BACK:
        return Stage.QUEUED, reason
    return Stage.FAILED, reason or str(outcome.result)


def _success_stage(run: ActiveRun) -> Stage:
    if run.assignment.step is Step.SHIP:
        return Stage.SHIPPED
    guarded = bool((run.findings.diff or {}).get("protected"))
    return Stage.REVIEW if guarded else Stage.TESTING


def _without_secrets(run: ActiveRun, verify: dict[str, Any]) -> dict[str, Any]:
    printed = redact(str(verify.get("output", "")), run.equipment.secrets)
    return {**verify, "output": printed}


def _versions(run: ActiveRun) -> dict[str, str]:
    return tool_versions(run.assignment, run.equipment.capabilities)


ALWAYS = "git"

_TOOLS = frozenset(tool.name for tool in TOOLS)
_KEY = re.compile(r"(?:has:)?([^:<>=]+)")


def tool_versions(assignment: Assignment, names: Iterable[str]) -> dict[str, str]:
    """Return versions of the engine and of the tools that the job requires, by name."""
    named = (match[1] for token in assignment.manifest.capabilities if (match := _KEY.match(token)))
    wanted = {ALWAYS, *(name for name in named if name in _TOOLS)}
    if assignment.engine is not None:
        wanted.add(base_engine(assignment.engine))
    versions = dict(token.split(":", 1) for token in names if ":" in token)
    return {name: versions[name] for name in sorted(wanted) if name in versions}
